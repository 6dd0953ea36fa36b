use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::net::SocketAddr;

/// Where a call comes from: what its transport knows of the connection.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The caller's address, where the transport has one.
    pub peer: Option<SocketAddr>,
    /// What the connection has to offer besides.
    pub extensions: Extensions,
}

impl From<Option<SocketAddr>> for Origin {
    fn from(peer: Option<SocketAddr>) -> Self {
        Origin { peer, extensions: Extensions::default() }
    }
}

/// What a connection has to offer to the handlers of its calls, found by type. Clones share it.
#[derive(Clone, Default)]
pub struct Extensions(Option<Arc<Extension>>);

/// A value, in front of those that were there before.
struct Extension<T: ?Sized = dyn Any + Send + Sync> {
    before: Extensions,
    value: T,
}

impl Extensions {
    /// The same and this value, which takes the place of one of its type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(self, value: T) -> Self {
        Extensions(Some(Arc::new(Extension { before: self, value })))
    }

    /// The value of this type.
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
    fn each_type_has_the_value_that_was_put_in_last() {
        let one = Extensions::default().with(1u32).with("text");
        let two = one.clone().with(2u32);
        assert_eq!((one.get::<u32>(), two.get::<u32>()), (Some(&1), Some(&2)));
        assert_eq!((two.get::<&str>(), two.get::<u8>()), (Some(&"text"), None));
    }
}
