//! Tests that addresses other than loopback require TLS and a token. The clients are curl and
//! openssl.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::{PROGRAM, Serve};

const TOKEN: &str = "a token that nobody guesses";

/// Folder with a certificate for this machine, its key, and the token.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn make() -> Files {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { folder };
        let made = Command::new("openssl")
            .args("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split(' '))
            .args(["-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(files.path("key.pem"))
            .arg("-out")
            .arg(files.path("cert.pem"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        fs::write(files.path("token"), format!("{TOKEN}\n")).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server on this address, with a certificate and a token.
    fn serve(&self, listen: &str) -> Serve {
        let mut serve = Command::new(PROGRAM);
        serve.args(["--listen", listen]);
        for (option, file) in [
            ("--tls-cert", "cert.pem"),
            ("--tls-key", "key.pem"),
            ("--token-file", "token"),
        ] {
            serve.arg(option).arg(self.path(file));
        }
        Serve::of(&mut serve)
    }
}

/// Returns the HTTP status of a page. curl fetches it, and trusts only this certificate.
fn status(certificate: &Path, url: &str, more: &[&str]) -> String {
    let curl = Command::new("curl")
        .args([
            "--silent",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code}",
            "--cacert",
        ])
        .arg(certificate)
        .args(more)
        .arg(url)
        .output()
        .unwrap();
    String::from_utf8(curl.stdout).unwrap()
}

#[test]
fn beyond_the_loopback_address_only_who_shows_the_token_is_answered() {
    let files = Files::make();
    let serve = files.serve("0.0.0.0:0");
    let port = serve.port();
    let url = |page: &str| format!("https://127.0.0.1:{port}{page}");
    let status = |page: &str, more: &[&str]| status(&files.path("cert.pem"), &url(page), more);
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let password = format!("anybody:{TOKEN}");
    for page in ["/metrics", "/", "/live.js"] {
        assert_eq!(status(page, &[]), "401", "{page}");
        assert_eq!(status(page, &["--user", "anybody:wrong"]), "401", "{page}");
        assert_eq!(status(page, &["--header", &bearer]), "200", "{page}");
        assert_eq!(status(page, &["--user", &password]), "200", "{page}");
    }
    // A health probe of an orchestrator has no token. Its answer contains no secrets.
    assert_eq!(status("/-/healthy", &[]), "200");
    // A request without TLS gets no answer.
    let plain = format!("http://127.0.0.1:{port}/-/healthy");
    assert_eq!(self::status(&files.path("cert.pem"), &plain, &[]), "000");
}

fn refused(more: &[&str]) -> Output {
    let mut serve = Command::new(PROGRAM);
    let output = serve.args(more).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    output
}

#[test]
fn beyond_the_loopback_address_nothing_is_served_in_the_open() {
    let files = Files::make();
    let token = files.path("token").display().to_string();
    for more in [&[][..], &["--token-file", &token]] {
        for listen in ["0.0.0.0:0", "[::]:0"] {
            let output = refused(&[&["--listen", listen], more].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                said.contains("--tls-cert, --tls-key and --token-file"),
                "{said}"
            );
        }
    }
}

#[test]
fn a_dump_is_for_who_shows_the_token_and_comes_by_tls() {
    let files = Files::make();
    let serve = files.serve("0.0.0.0:0");
    let path = files.path("dump.vmn");
    let dump = |options: &[(&str, PathBuf)]| {
        let mut dump = Command::new(PROGRAM);
        // The certificate is valid only for 127.0.0.1.
        dump.args(["dump", "--from"])
            .arg(format!("https://127.0.0.1:{}", serve.port()))
            .arg("--output")
            .arg(&path);
        for (option, file) in options {
            dump.arg(option).arg(file);
        }
        dump.output().unwrap()
    };
    let refused = |said: Output, word: &str| {
        let stderr = String::from_utf8(said.stderr).unwrap();
        assert!(!said.status.success() && stderr.contains(word), "{stderr}");
    };
    let (authority, token) = (
        ("--tls-ca", files.path("cert.pem")),
        ("--token-file", files.path("token")),
    );
    refused(dump(std::slice::from_ref(&token)), "--tls-ca");
    refused(dump(std::slice::from_ref(&authority)), "401");
    let exits = [("--vm", "web".into()), ("--exits", "1s".into())];
    refused(
        dump(&[std::slice::from_ref(&authority), &exits[..]].concat()),
        "401",
    );
    // The certificate of another server is not accepted.
    let others = Files::make();
    let strange = ("--tls-ca", others.path("cert.pem"));
    refused(dump(&[strange, token.clone()]), "does not verify");
    assert!(!path.exists());
    let said = dump(&[authority, token]);
    assert!(said.status.success(), "{said:?}");
    assert!(fs::metadata(&path).unwrap().len() > 0);
}
