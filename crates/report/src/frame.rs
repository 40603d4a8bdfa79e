//! Parts of every page: style, scripts, and figures.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::charts::Chart;
use crate::library;

/// Data for the base template of a page.
pub(crate) struct Frame<'a> {
    pub(crate) title: String,
    pub(crate) tool_version: &'a str,
    pub(crate) style: &'static str,
    pub(crate) packed: String,
    pub(crate) script: &'static str,
    /// Content-Security-Policy of the page.
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

/// Returns a Content-Security-Policy (CSP Level 3). The page loads nothing. It runs only this
/// script and the charts' library, even if a name in the data contains a script. The library writes
/// styles while it draws, so a hash cannot restrict styles.
fn policy(script: &str) -> String {
    let own = STANDARD.encode(Sha256::digest(script.as_bytes()));
    format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; \
         script-src 'sha256-{own}' 'sha256-{}'; \
         style-src 'unsafe-inline'; img-src data: blob:; font-src data:",
        library::HASH
    )
}

/// A chart, and the id of its HTML element.
pub(crate) struct Figure {
    pub(crate) id: String,
    pub(crate) chart: Chart,
}
