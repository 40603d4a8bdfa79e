//! The charts' library, as its package ships it: the text of one script.

use plotly::Plot;

const BEGIN: &str = "<script type=\"text/javascript\">";
const END: &str = "</script>";

/// The script that draws, without the one that typesets formulas, which is half as large again
/// and not needed. Empty if the package no longer puts it first; a test would say so.
pub(crate) fn script() -> String {
    let sources = Plot::offline_js_sources();
    let first = sources.split_once(BEGIN).map(|(_, rest)| rest);
    let first = first.and_then(|rest| rest.split_once(END));
    first.map_or_else(String::new, |(script, _)| script.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_library_and_no_more() {
        let script = script();
        assert!(script.contains("plotly.js v3"));
        assert!(script.contains("MIT license"), "its notice goes along");
        assert!(
            (3_000_000..5_000_000).contains(&script.len()),
            "{}",
            script.len()
        );
    }
}
