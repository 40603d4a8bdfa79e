//! The command line of `vmnoise serve`. The measuring program takes it and becomes `vmnoise-serve`,
//! which takes it again: help, manual and completions are of both.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// What to serve, and where.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Address and port to listen on; `/metrics` is for Prometheus
    ///
    /// Whoever reaches it can read the names of the VMs and of what runs beside them, so beyond the loopback
    /// address it takes the three options below. A service manager that hands over a socket decides
    /// instead where that is.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9752")]
    pub listen: SocketAddr,
    /// Room for this many vCPUs at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub vcpus: u32,
    /// Serve https with this certificate (PEM, with those that vouch for it)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Answer only who shows the token in this file: as a bearer token, or as the password of any user
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Write a summary of each hour, as Parquet, into this folder or object store (docs/data.md)
    ///
    /// A folder, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX with what AWS_…, GOOGLE_… or
    /// AZURE_… of the environment say. While it takes nothing, the last week waits in memory.
    #[arg(long, value_name = "DIR|URL")]
    pub summaries: Option<String>,
}

impl ServeArguments {
    /// The same as words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let ServeArguments {
            listen,
            vcpus,
            tls_cert,
            tls_key,
            token_file,
            summaries,
        } = self;
        let mut words = vec![
            "--listen".into(),
            listen.to_string().into(),
            "--vcpus".into(),
            vcpus.to_string().into(),
        ];
        let files = [
            ("--tls-cert", tls_cert),
            ("--tls-key", tls_key),
            ("--token-file", token_file),
        ];
        for (option, file) in files {
            if let Some(file) = file {
                words.extend([option.into(), file.into()]);
            }
        }
        if let Some(summaries) = summaries {
            words.extend(["--summaries".into(), summaries.into()]);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: ServeArguments,
    }

    #[test]
    fn words_say_what_was_taken() {
        let line = "program --listen [::1]:9000 --vcpus 7 --tls-cert c --tls-key k --token-file t --summaries s";
        let line: Vec<&str> = line.split(' ').collect();
        let taken = Program::parse_from(&line).arguments;
        assert_eq!(taken.words(), line[1..]);
        let by_default = Program::parse_from(["program"]).arguments.words();
        assert_eq!(by_default[1], "127.0.0.1:9752");
    }
}
