//! Tests of commands and their output: help, errors, exit statuses. The files are transcripts and
//! documentation; `TRYCMD=overwrite` renews them.

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
