//! Rules for a single text.

use std::fmt;

use super::texts::{Kind, Text};

/// Largest number of words in a sentence.
const MOST_WORDS: usize = 30;
/// Words whose meaning a reader with another first language has to guess.
const BANNED: [&str; 17] = [
    "told",
    "tell of",
    "tells of",
    "books",
    "rung",
    "climb",
    "climbs",
    "beside",
    "stretch",
    "stretches",
    "felt",
    "at one go",
    "to the last bit",
    "what it is about",
    "its like",
    "has come of",
    "have come of",
];
/// Words with which a doc comment must not begin, because they name no actor.
const OPENINGS: [&str; 5] = ["What", "Of", "That", "Those", "Whether it"];

/// Offence against a rule.
#[derive(Debug, PartialEq, Eq)]
pub enum Offence {
    /// A sentence with too many words: the number of words, and its first words.
    TooLong(usize, String),
    Banned(&'static str),
    Opening(&'static str),
    /// A public type with a name that another crate also uses.
    SharedName(String),
    /// A public type whose name is a participle.
    Participle(String),
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Offence::TooLong(words, begin) => write!(f, "{words} words in a sentence: {begin} …"),
            Offence::Banned(word) => write!(f, "banned: {word}"),
            Offence::Opening(word) => write!(f, "a doc comment begins with: {word}"),
            Offence::SharedName(name) => write!(f, "more than one public type is called {name}"),
            Offence::Participle(name) => write!(f, "a participle as the name of a type: {name}"),
        }
    }
}

/// Returns all offences in a text.
pub fn offences(text: &Text) -> Vec<Offence> {
    let plain = without_code(&text.words);
    let mut offences: Vec<Offence> = sentences(&plain)
        .filter(|sentence| count(sentence) > MOST_WORDS)
        .map(|sentence| {
            let begin: Vec<&str> = sentence.split_whitespace().take(6).collect();
            Offence::TooLong(count(sentence), begin.join(" "))
        })
        .collect();
    let spaced: String = plain
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .flat_map(|word| [word, " "])
        .collect();
    let spaced = format!(" {}", spaced.to_lowercase());
    for word in BANNED {
        let times = spaced.matches(&format!(" {word} ")).count();
        offences.extend((0..times).map(|_| Offence::Banned(word)));
    }
    if text.kind == Kind::DocComment {
        let opening = OPENINGS.into_iter().find(|word| {
            let rest = plain.strip_prefix(word);
            rest.is_some_and(|rest| rest.starts_with([' ', ',']))
        });
        offences.extend(opening.map(Offence::Opening));
    }
    offences
}

/// Returns the text with code spans replaced by one word each, and links replaced by their texts.
fn without_code(text: &str) -> String {
    let mut plain = String::new();
    for (index, piece) in text.split('`').enumerate() {
        plain.push_str(if index % 2 == 0 { piece } else { "CODE" });
    }
    let mut without_links = String::new();
    let mut rest = plain.as_str();
    while let Some((before, after)) = rest.split_once("](") {
        without_links.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    without_links + rest
}

/// Returns the sentences of a text. The end of a paragraph or list item also ends a sentence.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n")
        .flat_map(|paragraph| paragraph.split("\n- "))
        .flat_map(|paragraph| {
            let ends = |piece: &str| piece.ends_with(['.', '!', '?', ':']);
            let mut begin = 0;
            let mut found = Vec::new();
            for (at, _) in paragraph.match_indices(char::is_whitespace) {
                if ends(&paragraph[begin..at]) {
                    found.push(&paragraph[begin..at]);
                    begin = at;
                }
            }
            found.push(&paragraph[begin..]);
            found
        })
}

fn count(sentence: &str) -> usize {
    let words = sentence.split_whitespace();
    words
        .filter(|word| word.contains(char::is_alphanumeric))
        .count()
}

fn judged(kind: Kind, words: &str) -> Vec<Offence> {
    offences(&Text {
        file: String::new(),
        kind,
        words: words.to_owned(),
    })
}

#[test]
fn each_rule_finds_its_offence_and_nothing_else() {
    let long = "word ".repeat(MOST_WORDS + 1);
    assert_eq!(
        judged(Kind::Page, &long),
        [Offence::TooLong(31, "word word word word word word".into())]
    );
    let two = format!("{}end. {}", "word ".repeat(20), "word ".repeat(20));
    assert_eq!(judged(Kind::Page, &two), []);
    let items = format!("{}\n- {}", "word ".repeat(20), "word ".repeat(20));
    assert_eq!(judged(Kind::Page, &items), []);
    assert_eq!(
        judged(
            Kind::Page,
            "It was told at one\ngo. `told` is code, [books](told.md) is not."
        ),
        [
            Offence::Banned("told"),
            Offence::Banned("books"),
            Offence::Banned("at one go")
        ]
    );
    assert_eq!(judged(Kind::Page, "What comes next."), []);
    assert_eq!(
        judged(Kind::DocComment, "What comes next."),
        [Offence::Opening("What")]
    );
    assert_eq!(
        judged(Kind::DocComment, "Offers a seat. Whatever comes."),
        []
    );
}
