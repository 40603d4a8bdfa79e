//! The token, a secret that clients must send.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Least number of bytes of a token. Shorter tokens can be guessed.
const SHORTEST: usize = 16;

/// SHA-256 of the token. The time of comparing digests does not reveal which part of a guess was
/// right.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token([u8; 32]);

/// Returns the first line of a file.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn secret(file: &Path) -> Result<String> {
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("reading the token {name}"))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

impl Token {
    /// Reads the token from the first line of a file.
    ///
    /// # Errors
    /// If the file cannot be read, or the token is too short for a secret.
    pub(crate) fn read(file: &Path) -> Result<Token> {
        let token = secret(file)?;
        ensure!(
            token.len() >= SHORTEST,
            "the token in {} is too short for a secret: make it {SHORTEST} characters or longer (openssl rand -hex 32)",
            file.display()
        );
        Ok(Token::of(token.as_bytes()))
    }

    fn of(secret: &[u8]) -> Token {
        Token(Sha256::digest(secret).into())
    }

    /// Returns whether the request contains the token. It may be a bearer token (RFC 6750), or the
    /// password of any user, as browsers send it (RFC 7617).
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
        let Some((scheme, shown)) = shown.and_then(|it| it.split_once(' ')) else {
            return false;
        };
        let shown = shown.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return Token::of(shown.as_bytes()) == *self;
        }
        let decoded = STANDARD.decode(shown).unwrap_or_default();
        let mut parts = decoded.splitn(2, |byte| *byte == b':');
        let password = parts.nth(1);
        scheme.eq_ignore_ascii_case("basic") && password.is_some_and(|it| Token::of(it) == *self)
    }
}

/// Refuses requests without the token. Without a configured token, accepts all requests.
pub(crate) async fn check(
    State(token): State<Arc<Option<Token>>>,
    request: Request,
    next: Next,
) -> Response {
    match &*token {
        Some(token) if !token.is_shown(request.headers()) => {
            let asks = [(WWW_AUTHENTICATE, "Basic realm=\"vmnoise serve\"")];
            (
                StatusCode::UNAUTHORIZED,
                asks,
                "the token is missing or wrong\n",
            )
                .into_response()
        }
        _ => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shows(header: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, header.parse().unwrap());
        Token::of(b"correct horse battery").is_shown(&headers)
    }

    #[test]
    fn the_token_and_nothing_else_opens() {
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        assert!(shows("Bearer correct horse battery"));
        assert!(shows("bearer correct horse battery"));
        assert!(shows(&basic("prometheus:correct horse battery")));
        for wrong in [
            "Bearer",
            "Bearer ",
            "Bearer correct horse batter",
            "Digest correct horse battery",
            "Basic correct horse battery",
            &basic("correct horse battery"),
            &basic("correct horse battery:"),
        ] {
            assert!(!shows(wrong), "{wrong}");
        }
        let token = Token::of(b"correct horse battery");
        assert!(!token.is_shown(&HeaderMap::new()));
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, is_taken) in [
            ("", false),
            ("\n", false),
            ("secret\n", false),
            ("0123456789abcdef\n", true),
        ] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(Token::read(file.path()).is_ok(), is_taken, "{text:?}");
        }
    }
}
