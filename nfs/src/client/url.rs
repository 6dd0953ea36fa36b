use std::fmt;
use std::str::FromStr;

use crate::provider::Provider;
use crate::security::{Security, UnknownSecurity};

const RPCBIND: u16 = 111;

/// The transport of NFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// RPC-over-RDMA: `rdma://`, port 20049 (RFC 8267 section 4.2).
    Rdma,
    /// RPC over TCP: `tcp://`, port 2049.
    Tcp,
}

impl Transport {
    fn scheme(self) -> &'static str {
        match self {
            Transport::Rdma => "rdma://",
            Transport::Tcp => "tcp://",
        }
    }

    fn port(self) -> u16 {
        match self {
            Transport::Rdma => 20049,
            Transport::Tcp => 2049,
        }
    }
}

/// The location of a file: `rdma://HOST[:PORT]/PATH` or `tcp://HOST[:PORT]/PATH`. In the path, `%` and two
/// hexadecimal digits encode a byte. The options `mountport=PORT`, `rpcbind=PORT`, `provider=NAME` and
/// `sec=NAME` may follow after `?`, separated by `&`.
///
/// ```
/// use rpcrdma_nfs::client::{Transport, Url};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url: Url = "tcp://[2001:db8::1]/a%20b?mountport=20048".parse()?;
/// assert_eq!((url.transport, url.port, url.mount_port), (Transport::Tcp, 2049, Some(20048)));
/// assert_eq!((url.host.as_str(), url.path.as_slice()), ("2001:db8::1", b"/a b".as_slice()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Url {
    /// The transport of NFS.
    pub transport: Transport,
    /// A name or an address. An IPv6 address is stored without brackets.
    pub host: String,
    /// The port of NFS.
    pub port: u16,
    /// The decoded path from the server's root. Starts with a slash.
    pub path: Vec<u8>,
    /// The port of MOUNT over TCP, if given.
    pub mount_port: Option<u16>,
    /// The port of rpcbind (default 111), which may be queried for the port of MOUNT.
    pub rpcbind_port: u16,
    /// The provider for RPC-over-RDMA.
    pub provider: Provider,
    /// The security flavor of NFS calls. MOUNT calls never use Kerberos.
    pub security: Security,
}

/// Why a URL is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The URL does not start with `rdma://` or `tcp://`.
    #[error("invalid URL: expected rdma://HOST[:PORT]/PATH or tcp://HOST[:PORT]/PATH")]
    Scheme,
    /// The host or its closing bracket is missing.
    #[error("no host in the URL: expected HOST, or [HOST] for an IPv6 address")]
    Host,
    /// A port is invalid.
    #[error("invalid port in the URL: expected a number from 1 to 65535")]
    Port,
    /// A `%` is not followed by two hexadecimal digits.
    #[error(
        "invalid % in the URL's path: expected two hexadecimal digits after it; write %25 for a percent sign"
    )]
    Escape,
    /// An option after `?` is unknown or malformed.
    #[error(
        "invalid URL option: expected mountport=PORT, rpcbind=PORT, provider=NAME or sec=NAME after ?; write %3F for a question mark in the path"
    )]
    Option,
    /// The security flavor after `sec=` is unknown.
    #[error("invalid sec in the URL: {0}")]
    Security(#[from] UnknownSecurity),
}

impl Url {
    /// Returns the address to connect to: `HOST:PORT`, with brackets around an IPv6 address unless the
    /// address has a named zone.
    #[must_use]
    pub fn address(&self) -> String {
        self.with_port(self.port)
    }

    /// Returns the address of the same host with another port.
    #[must_use]
    pub fn with_port(&self, port: u16) -> String {
        // The standard library resolves an address with a named zone, such as `%eth0`, only without brackets.
        let has_named_zone = self
            .host
            .split_once('%')
            .is_some_and(|(_, zone)| !zone.bytes().all(|byte| byte.is_ascii_digit()));
        if self.host.contains(':') && !has_named_zone {
            format!("[{}]:{port}", self.host)
        } else {
            format!("{}:{port}", self.host)
        }
    }

    /// Returns the last component of the path, or `None` for the root.
    #[must_use]
    pub fn file_name(&self) -> Option<&[u8]> {
        self.path.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty())
    }

    /// Returns the path up to its last component, and the last component. Returns `None` for the root.
    #[must_use]
    pub fn split_name(&self) -> Option<(&[u8], &[u8])> {
        let name = self.file_name()?;
        let trimmed =
            self.path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last.saturating_add(1));
        Some((self.path.get(..trimmed.saturating_sub(name.len()))?, name))
    }

    fn set(mut self, option: &str) -> Result<Self, UrlError> {
        let (name, value) = option.split_once('=').ok_or(UrlError::Option)?;
        match name {
            "mountport" => self.mount_port = Some(port(value)?),
            "rpcbind" => self.rpcbind_port = port(value)?,
            "provider" => self.provider = value.parse().map_err(|_| UrlError::Option)?,
            "sec" => self.security = value.parse()?,
            _ => return Err(UrlError::Option),
        }
        Ok(self)
    }
}

fn port(digits: &str) -> Result<u16, UrlError> {
    digits.parse().ok().filter(|port| *port != 0).ok_or(UrlError::Port)
}

impl FromStr for Url {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let scheme = |transport: Transport| Some((transport, text.strip_prefix(transport.scheme())?));
        let found = scheme(Transport::Rdma).or_else(|| scheme(Transport::Tcp));
        let (transport, rest) = found.ok_or(UrlError::Scheme)?;
        let (rest, options) =
            rest.split_once('?').map_or((rest, None), |(rest, options)| (rest, Some(options)));
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let (host, given) = match authority.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once(']').ok_or(UrlError::Host)?,
            None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
        };
        if host.is_empty() {
            return Err(UrlError::Host);
        }
        let port = match given {
            "" => transport.port(),
            given => port(given.strip_prefix(':').ok_or(UrlError::Port)?)?,
        };
        let (host, path) = (host.to_owned(), decode(path.as_bytes())?);
        let (provider, security) = (Provider::default(), Security::default());
        let url =
            Url { transport, host, port, path, mount_port: None, rpcbind_port: RPCBIND, provider, security };
        options.map_or(Ok(url.clone()), |options| options.split('&').try_fold(url, Url::set))
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
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}{open}{}{close}:{}", self.transport.scheme(), self.host, self.port)?;
        for byte in &self.path {
            match byte {
                b'/' | b'.' | b'-' | b'_' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                    write!(f, "{}", char::from(*byte))?;
                }
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        let rpcbind = Some(self.rpcbind_port).filter(|port| *port != RPCBIND);
        let provider = Some(self.provider).filter(|provider| *provider != Provider::default());
        let security = Some(self.security).filter(|security| *security != Security::default());
        let options = [
            ("mountport", self.mount_port.map(|port| port.to_string())),
            ("rpcbind", rpcbind.map(|port| port.to_string())),
            ("provider", provider.map(|provider| provider.to_string())),
            ("sec", security.map(|security| security.to_string())),
        ];
        let mut sign = '?';
        for (name, value) in options.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            write!(f, "{sign}{name}={value}")?;
            sign = '&';
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requirement: R251
    #[test]
    fn urls_have_a_host_an_optional_port_and_a_path() {
        let url = |text: &str| text.parse::<Url>().map(|url| (url.address(), url.path));
        let is = |address: &str, path: &[u8]| Ok((address.to_owned(), path.to_vec()));
        assert_eq!(url("rdma://host/a/b"), is("host:20049", b"/a/b"));
        assert_eq!(url("rdma://127.0.0.1:99"), is("127.0.0.1:99", b"/"));
        assert_eq!(url("rdma://[::1]:2049/x:y"), is("[::1]:2049", b"/x:y"));
        assert_eq!(url("rdma://[::1]/"), is("[::1]:20049", b"/"));
        assert_eq!(url("rdma://[fe80::1%2]/"), is("[fe80::1%2]:20049", b"/"));
        assert_eq!(url("rdma://[fe80::1%lo]/"), is("fe80::1%lo:20049", b"/"));
        assert_eq!(url("rdma://h/100%25%fF"), is("h:20049", b"/100%\xff"));
        assert_eq!(url("tcp://host/x"), is("host:2049", b"/x"));
        assert_eq!(url("tcp://host:1/a%3Fb"), is("host:1", b"/a?b"));
        assert_eq!(url("http://host/"), Err(UrlError::Scheme));
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
    fn a_formatted_url_parses_to_the_same_url() {
        let rdma = Url {
            transport: Transport::Rdma,
            host: "::1".into(),
            port: 1,
            path: b"/a b/\xff%?".to_vec(),
            mount_port: None,
            rpcbind_port: 111,
            provider: Provider::Auto,
            security: Security::Krb5i,
        };
        let tcp = Url { transport: Transport::Tcp, mount_port: Some(5), rpcbind_port: 6, ..rdma.clone() };
        let zone = Url { host: "fe80::1%lo".into(), ..rdma.clone() };
        for url in [rdma, tcp, zone] {
            assert_eq!(url.to_string().parse(), Ok(url));
        }
    }

    #[test]
    fn options_override_the_ports_of_other_programs() {
        let url: Url = "tcp://h/dir?mountport=20048&rpcbind=7".parse().unwrap();
        assert_eq!((url.mount_port, url.rpcbind_port, &url.path[..]), (Some(20048), 7, &b"/dir"[..]));
        for security in [Security::Sys, Security::Krb5, Security::Krb5i, Security::Krb5p] {
            let url: Url = format!("rdma://h/?sec={security}").parse().unwrap();
            assert_eq!(url.security, security);
        }
        for (wrong, error) in [
            ("tcp://h/?", UrlError::Option),
            ("tcp://h/?mountport", UrlError::Option),
            ("tcp://h/?mountport=0", UrlError::Port),
            ("tcp://h/?port=1", UrlError::Option),
            ("tcp://h/?sec=krb4", UrlError::Security(UnknownSecurity)),
            ("tcp://h/?mountport=1&", UrlError::Option),
        ] {
            assert_eq!(wrong.parse::<Url>(), Err(error), "{wrong}");
        }
    }

    #[test]
    fn a_path_is_split_before_its_last_component() {
        let split = |text: &str| {
            let url: Url = text.parse().unwrap();
            url.split_name().map(|(above, name)| (above.to_vec(), name.to_vec()))
        };
        assert_eq!(split("rdma://h/a/b//"), Some((b"/a/".to_vec(), b"b".to_vec())));
        assert_eq!(split("rdma://h/a"), Some((b"/".to_vec(), b"a".to_vec())));
        assert_eq!(split("rdma://h/"), None);
    }
}
