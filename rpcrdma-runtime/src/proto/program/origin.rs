use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::net::SocketAddr;

/// The origin of a call, as reported by its transport.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The caller's address, if the transport provides it.
    pub peer: Option<SocketAddr>,
    /// Further objects for the handler of the call, keyed by type.
    pub extensions: Extensions,
}

impl From<Option<SocketAddr>> for Origin {
    fn from(peer: Option<SocketAddr>) -> Self {
        Origin { peer, extensions: Extensions::default() }
    }
}

/// Objects that a connection or RPCSEC_GSS provides to the handlers of calls, keyed by type. Clones share the
/// objects.
#[derive(Clone, Default)]
pub struct Extensions(Option<Arc<Extension>>);

struct Extension<T: ?Sized = dyn Any + Send + Sync> {
    before: Extensions,
    value: T,
}

impl Extensions {
    /// Adds a value, which hides earlier values of the same type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(self, value: T) -> Self {
        Extensions(Some(Arc::new(Extension { before: self, value })))
    }

    /// Returns the last added value of this type, if any.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        let mut extensions = self;
        while let Some(extension) = &extensions.0 {
            if let Some(value) = extension.value.downcast_ref() {
                return Some(value);
            }
            extensions = &extension.before;
        }
        None
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Extensions")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_the_given_address() {
        let peer = Some(SocketAddr::from(([192, 0, 2, 1], 20049)));
        assert_eq!((Origin::from(peer).peer, Origin::from(None).peer), (peer, None));
    }

    #[test]
    fn the_last_value_of_each_type_is_returned() {
        let one = Extensions::default().with(1u32).with("text");
        let two = one.clone().with(2u32);
        assert_eq!((one.get::<u32>(), two.get::<u32>()), (Some(&1), Some(&2)));
        assert_eq!((two.get::<&str>(), two.get::<u8>()), (Some(&"text"), None));
    }
}
