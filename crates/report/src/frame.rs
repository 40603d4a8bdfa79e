//! What is the same on every page: style, scripts and figures.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::charts::Chart;
use crate::library;

/// Fills the base of a page.
pub(crate) struct Frame<'a> {
    pub(crate) title: String,
    pub(crate) tool_version: &'a str,
    pub(crate) style: &'static str,
    pub(crate) packed: String,
    pub(crate) script: &'static str,
    /// What the page allows itself.
    pub(crate) policy: String,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(title: String, tool_version: &'a str) -> Frame<'a> {
        let script = include_str!("../page/page.js");
        Frame {
            title,
            tool_version,
            style: crate::STYLE,
            policy: policy(script),
            packed: STANDARD.encode(library::PACKED),
            script,
        }
    }
}

/// A Content-Security-Policy (CSP Level 3): nothing is loaded, and no script runs but this one
/// and the charts' library,
/// whatever a name on the page may have made of itself. The charts' library writes its own
/// styles as it draws, which no hash of ours can know.
fn policy(script: &str) -> String {
    let own = STANDARD.encode(Sha256::digest(script.as_bytes()));
    format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; \
         script-src 'sha256-{own}' 'sha256-{}'; \
         style-src 'unsafe-inline'; img-src data: blob:; font-src data:",
        library::HASH
    )
}

/// A chart in its place.
pub(crate) struct Figure {
    pub(crate) id: String,
    pub(crate) chart: Chart,
}
