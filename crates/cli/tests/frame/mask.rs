//! Masks the data that differ between runs, so that the layout of a screen remains.

/// Removes figures, names and curve from the screen; headings and their order remain.
pub fn mask(screen: &str) -> String {
    let lines = screen.lines().map(line);
    let lines = lines.filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// Masks the numbers in a line of words, and removes lines of figures except the chosen one.
fn line(line: &str) -> String {
    let text = line.trim();
    let is_bar = |c: char| c.is_whitespace() || ('\u{2581}'..='\u{2588}').contains(&c);
    if text.starts_with("longest: ") {
        return "longest: ...".into();
    }
    if text.chars().all(is_bar) || text.starts_with(|c: char| c.is_ascii_digit()) {
        return String::new();
    }
    if text.starts_with("> ") {
        return "> ...".into();
    }
    // This column fits only if the figures below are short.
    let text = text.replace("outer steal", "");
    if let Some((columns, _)) = text.split_once("largest sh") {
        return one_space(columns) + " largest shares";
    }
    if let Some((columns, _)) = text.split_once("most of it") {
        return one_space(&columns.replace(" at ", " ")) + " most of it | ...";
    }
    match text.split_once("Budget of ") {
        Some((heading, _)) => one_space(heading) + " | Budget of ...",
        None => one_space(&text),
    }
}

/// Replaces numbers by 0, and each run of spaces by one.
fn one_space(words: &str) -> String {
    let mut out = String::new();
    for c in words
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
    {
        let c = if c.is_ascii_digit() { '0' } else { c };
        if c != '0' || !out.ends_with('0') {
            out.push(c);
        }
    }
    out
}
