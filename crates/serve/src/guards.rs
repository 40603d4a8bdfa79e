//! TLS and the token, which protect the server.

use std::net::SocketAddr;

use anyhow::{Result, ensure};
use tokio_rustls::TlsAcceptor;
use vmnoise_serve_arguments::ServeArguments;

use crate::tls;
use crate::token::Token;

pub(crate) struct Guards {
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) token: Option<Token>,
}

impl Guards {
    /// Returns the guards that the arguments name. An address that other machines can reach
    /// requires all guards.
    ///
    /// # Errors
    /// If a required guard is missing, or a file of a guard cannot be read.
    pub(crate) fn of(arguments: &ServeArguments, address: SocketAddr) -> Result<Guards> {
        let files = arguments.tls_cert.as_ref().zip(arguments.tls_key.as_ref());
        let tls = files.map(|(certificate, key)| tls::acceptor(certificate, key));
        let token = arguments.token_file.as_ref().map(|file| Token::read(file));
        let guards = Guards {
            tls: tls.transpose()?,
            token: token.transpose()?,
        };
        let is_guarded = guards.tls.is_some() && guards.token.is_some();
        ensure!(
            address.ip().is_loopback() || is_guarded,
            "other machines can reach {address}, and could read the names of VMs and of tasks next to them: set --tls-cert, --tls-key and --token-file, or listen on 127.0.0.1"
        );
        Ok(guards)
    }
}
