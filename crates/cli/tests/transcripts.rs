//! What people type and what they get: help, errors, exit statuses. The files are
//! transcripts and documentation at once; `TRYCMD=overwrite` renews them.

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
