//! Who may ask: the checks before any work is done for a request.
//!
//! A web page from anywhere can make its visitor's browser send requests to a server on the visitor's own machine.
//! *DNS rebinding* makes it look as if they went to the page's own site: then the `Host` header has that site's name,
//! which is why only addresses, `localhost` and names given by the user are taken. *Cross-site requests* carry the
//! page's `Origin`, or say so in `Sec-Fetch-Site`: only our own page may ask. A *key* is for everybody else.

use crate::problem::Problem;
use axum::http::{HeaderMap, Uri, header};
use std::net::IpAddr;

/// What is checked.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Names under which the server may be reached, besides addresses and `localhost`.
    pub names: Vec<String>,
    /// What a client must know.
    pub key: Option<String>,
}

impl Guard {
    /// Whether a request may go on.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let host = text(headers, header::HOST.as_str())?.ok_or_else(|| Problem::invalid("there is no Host header"))?;
        let named_twice = uri.authority().is_some_and(|a| !a.as_str().eq_ignore_ascii_case(host));
        if !self.knows(host) || named_twice {
            return Err(Problem::forbidden(
                "the Host header names another server; ask by address, or start with `--allow-host NAME`",
            ));
        }
        if let Some(origin) = text(headers, header::ORIGIN.as_str())?
            && !same_site(origin, host)
        {
            return Err(Problem::forbidden("requests from pages of other sites are not answered"));
        }
        let open = is_open(uri.path());
        if let Some("cross-site" | "same-site") = text(headers, "sec-fetch-site")?
            && !open
        {
            return Err(Problem::forbidden("requests from pages of other sites are not answered"));
        }
        match &self.key {
            Some(key) if !open && !has_key(headers, key) => Err(Problem::unauthorized()),
            _ => Ok(()),
        }
    }

    /// Whether `host`, with or without a port, is one of ours.
    fn knows(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => {
                let Some((address, port)) = rest.split_once(']') else { return false };
                return address.parse::<IpAddr>().is_ok_and(|a| a.is_ipv6()) && (port.is_empty() || is_port(port));
            }
            None => match host.find(':') {
                Some(colon) if !is_port(&host[colon..]) => return false,
                Some(colon) => &host[..colon],
                None => host,
            },
        };
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok()
            || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The page itself and the sign of life hold no secrets, and a browser cannot send a key with the first of them.
fn is_open(path: &str) -> bool {
    path == "/" || path == "/healthz" || path == "/favicon.ico" || path.starts_with("/page/")
}

/// `:8080`
fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|digits| digits.len() <= 5 && digits.bytes().all(|b| b.is_ascii_digit()))
}

fn same_site(origin: &str, host: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| origin.strip_prefix(scheme).is_some_and(|site| site.eq_ignore_ascii_case(host)))
}

/// The one value of a header that must not be there twice.
fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            value.to_str().map(Some).map_err(|_| Problem::invalid(format!("the header `{name}` is not plain text")))
        }
        _ => Err(Problem::invalid(format!("the header `{name}` is there twice"))),
    }
}

fn has_key(headers: &HeaderMap, key: &str) -> bool {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    match value.as_bytes().split_at_checked(7) {
        Some((scheme, given)) => scheme.eq_ignore_ascii_case(b"bearer ") && same_bytes(given, key.as_bytes()),
        None => false,
    }
}

/// Compares all bytes whatever the first ones are, so that the time it takes says nothing about where they differ.
fn same_bytes(given: &[u8], secret: &[u8]) -> bool {
    let mut difference = u8::from(given.len() != secret.len());
    for (i, &byte) in given.iter().enumerate() {
        difference |= std::hint::black_box(byte ^ secret[i % secret.len().max(1)]);
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue, StatusCode};
    use axum::response::IntoResponse;

    fn status(guard: &Guard, path: &str, headers: &[(&str, &str)]) -> StatusCode {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        match guard.check(&path.parse().unwrap(), &map) {
            Ok(()) => StatusCode::OK,
            Err(problem) => problem.into_response().status(),
        }
    }

    #[test]
    fn only_addresses_and_known_names_are_hosts() {
        let guard = Guard { names: vec!["models.example".into()], key: None };
        for host in
            ["localhost", "LocalHost:8080", "127.0.0.1:80", "[::1]:8080", "[::1]", "10.0.0.7", "Models.Example:1"]
        {
            assert_eq!(status(&guard, "/v1/models", &[("host", host)]), StatusCode::OK, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost:80:80",
            "[::1",
            "[::1]x",
            "",
        ] {
            assert_eq!(status(&guard, "/v1/models", &[("host", host)]), StatusCode::FORBIDDEN, "{host}");
        }
        assert_eq!(status(&guard, "/v1/models", &[]), StatusCode::BAD_REQUEST);
        assert_eq!(status(&guard, "/", &[("host", "localhost"), ("host", "localhost")]), StatusCode::BAD_REQUEST);
        let other = "http://evil.example/v1/models";
        assert_eq!(status(&guard, other, &[("host", "localhost")]), StatusCode::FORBIDDEN);
    }

    #[test]
    fn only_our_own_page_may_ask_from_a_browser() {
        let ask = |name, value| status(&Guard::default(), "/api/next", &[("host", "localhost:8080"), (name, value)]);
        assert_eq!(ask("origin", "http://localhost:8080"), StatusCode::OK);
        assert_eq!(ask("sec-fetch-site", "same-origin"), StatusCode::OK);
        assert_eq!(ask("sec-fetch-site", "none"), StatusCode::OK);
        for origin in
            ["http://evil.example", "null", "http://localhost:8081", "http://localhost", "ftp://localhost:8080"]
        {
            assert_eq!(ask("origin", origin), StatusCode::FORBIDDEN, "{origin}");
        }
        assert_eq!(ask("sec-fetch-site", "cross-site"), StatusCode::FORBIDDEN);
        // A link to the page is no attack.
        let link = [("host", "localhost"), ("sec-fetch-site", "cross-site")];
        assert_eq!(status(&Guard::default(), "/", &link), StatusCode::OK);
    }

    #[test]
    fn a_key_is_wanted_for_all_but_the_page() {
        let guard = Guard { names: vec![], key: Some("open sesame".into()) };
        let ask = |path, value| status(&guard, path, &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(ask("/v1/models", "Bearer open sesame"), StatusCode::OK);
        assert_eq!(ask("/v1/models", "bearer open sesame"), StatusCode::OK);
        for wrong in
            ["Bearer open sesamE", "Bearer open", "Bearer ", "Bearer open sesame!", "open sesame", "Basic open"]
        {
            assert_eq!(ask("/v1/models", wrong), StatusCode::UNAUTHORIZED, "{wrong}");
        }
        for path in ["/metrics", "/api/runs", "/v1/completions", "/tokenize"] {
            assert_eq!(status(&guard, path, &[("host", "localhost")]), StatusCode::UNAUTHORIZED, "{path}");
        }
        for path in ["/", "/healthz", "/page/page.css"] {
            assert_eq!(status(&guard, path, &[("host", "localhost")]), StatusCode::OK, "{path}");
        }
    }
}
