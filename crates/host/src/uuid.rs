//! UUIDs in their usual text form.

/// Returns the UUID in lower case; `None` if the text is not a UUID.
pub(super) fn uuid(text: &str) -> Option<String> {
    let lengths = text.split('-').map(str::len);
    let is_one = lengths.eq([8, 4, 4, 4, 12])
        && text
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    is_one.then(|| text.to_ascii_lowercase())
}
