use std::fmt;
use std::str::FromStr;

/// The port of NFS over RPC-over-RDMA (RFC 8267 section 5.1).
const PORT: u16 = 20049;
const SCHEME: &str = "rdma://";

/// Where a file is: `rdma://HOST[:PORT]/PATH`. In the path, `%` and two hexadecimal digits stand for a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// A name or an address; an IPv6 address without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path from the server's top, decoded. Begins with a slash.
    pub path: Vec<u8>,
}

/// Why a URL is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It does not begin with `rdma://`.
    #[error("a URL is rdma://HOST[:PORT]/PATH")]
    Scheme,
    /// There is no host.
    #[error("the URL has no host")]
    Host,
    /// What follows the host is no port.
    #[error("the URL's port is not a number from 1 to 65535")]
    Port,
    /// A `%` that is not followed by two hexadecimal digits.
    #[error("in the URL's path, % stands before two hexadecimal digits; %25 is a percent sign")]
    Escape,
}

impl Url {
    /// What to connect to.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The last component of the path, if there is one.
    #[must_use]
    pub fn file_name(&self) -> Option<&[u8]> {
        self.path.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty())
    }
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let rest = text.strip_prefix(SCHEME).ok_or(UrlError::Scheme)?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']').ok_or(UrlError::Host)?,
            None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
        };
        if host.is_empty() {
            return Err(UrlError::Host);
        }
        let port = match port {
            "" => PORT,
            port => {
                let number = port.strip_prefix(':').and_then(|port| port.parse().ok());
                number.filter(|port| *port != 0).ok_or(UrlError::Port)?
            }
        };
        Ok(Url { host: host.to_owned(), port, path: decode(path.as_bytes())? })
    }
}

fn decode(path: &[u8]) -> Result<Vec<u8>, UrlError> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let (byte, tail) = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => (hex(*high)? << 4 | hex(*low)?, tail),
            (b'%', _) => return Err(UrlError::Escape),
            (byte, tail) => (*byte, tail),
        };
        decoded.push(byte);
        rest = tail;
    }
    Ok(decoded)
}

fn hex(digit: u8) -> Result<u8, UrlError> {
    let value = char::from(digit).to_digit(16).ok_or(UrlError::Escape)?;
    u8::try_from(value).map_err(|_| UrlError::Escape)
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.address())?;
        for byte in &self.path {
            match byte {
                b'/' | b'.' | b'-' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                    write!(f, "{}", char::from(*byte))?;
                }
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirement: R251
    #[test]
    fn a_url_has_a_host_perhaps_a_port_and_a_path() {
        let url = |text: &str| text.parse::<Url>().map(|url| (url.address(), url.path));
        let is = |address: &str, path: &[u8]| Ok((address.to_owned(), path.to_vec()));
        assert_eq!(url("rdma://host/a/b"), is("host:20049", b"/a/b"));
        assert_eq!(url("rdma://127.0.0.1:99"), is("127.0.0.1:99", b"/"));
        assert_eq!(url("rdma://[::1]:2049/x:y"), is("[::1]:2049", b"/x:y"));
        assert_eq!(url("rdma://[::1]/"), is("[::1]:20049", b"/"));
        assert_eq!(url("rdma://h/100%25%fF"), is("h:20049", b"/100%\xff"));
        assert_eq!(url("tcp://host/"), Err(UrlError::Scheme));
        assert_eq!(url("rdma:///path"), Err(UrlError::Host));
        assert_eq!(url("rdma://[::1/"), Err(UrlError::Host));
        for port in ["rdma://h:/", "rdma://h:0/", "rdma://h:65536/", "rdma://[::1]99/"] {
            assert_eq!(url(port), Err(UrlError::Port), "{port}");
        }
        for escape in ["rdma://h/%", "rdma://h/%1", "rdma://h/%g0"] {
            assert_eq!(url(escape), Err(UrlError::Escape), "{escape}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let url = Url { host: "::1".into(), port: 1, path: b"/a b/\xff%".to_vec() };
        assert_eq!(url.to_string().parse(), Ok(url));
    }
}
