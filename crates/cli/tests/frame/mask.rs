//! What differs from run to run is masked, so that what is left is how a screen is built.

/// The screen without its figures, names and curve: headings and their order stay.
pub fn mask(screen: &str) -> String {
    let lines = screen.lines().map(line);
    let lines = lines.filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// A line of words stays, its numbers masked; one of figures is left out, but for the chosen one.
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
    // Whether there is room for them depends on the figures below.
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

/// Numbers as one 0, and space as one blank.
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
