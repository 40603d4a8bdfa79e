//! Styles that the terminal supports: characters beyond ASCII, and colours.

use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;

/// Bars for terminals with ASCII only.
const ASCII_BARS: bar::Set<'static> = bar::Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "*",
    five_eighths: "+",
    half: "=",
    three_eighths: "-",
    one_quarter: ":",
    one_eighth: ".",
    empty: " ",
};

/// Style of the drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermStyle {
    /// Whether only ASCII can be shown.
    pub ascii: bool,
    /// Whether colours are left out; bold and reverse remain.
    pub plain: bool,
}

impl TermStyle {
    /// Derives the style from these environment variables.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> TermStyle {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale = locale.unwrap_or_default().to_lowercase();
        let term = set("TERM").unwrap_or_default();
        // The font of the kernel's console lacks the block characters that a curve needs.
        let has_letters = (locale.contains("utf-8") || locale.contains("utf8")) && term != "linux";
        let one_colour = term.contains("mono") || term.ends_with("-m") || term.starts_with("vt");
        TermStyle {
            ascii: !has_letters,
            plain: set("NO_COLOR").is_some() || one_colour,
        }
    }

    /// Returns the characters of a curve.
    pub fn bars(self) -> bar::Set<'static> {
        match self.ascii {
            true => ASCII_BARS,
            false => bar::NINE_LEVELS,
        }
    }

    /// Returns the text with a `?` for each character that this terminal cannot show.
    pub fn text(self, text: &str) -> String {
        let shown = |c: char| if self.ascii && !c.is_ascii() { '?' } else { c };
        text.chars().map(shown).collect()
    }

    fn coloured(self, style: Style, colour: Color) -> Style {
        match self.plain {
            true => style,
            false => style.fg(colour),
        }
    }

    /// Returns the style of the first line.
    pub fn bar_line(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Returns the style of the heading of each part of the screen.
    pub fn heading(self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Cyan)
    }

    /// Returns the style of the chosen line; `has_keys` says whether its list receives the keys.
    pub fn chosen(self, has_keys: bool) -> Style {
        match has_keys {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// Returns the style of notices.
    pub fn notice(self) -> Style {
        self.coloured(Style::new().add_modifier(Modifier::BOLD), Color::Yellow)
    }

    /// Returns the style of the curve.
    pub fn curve(self) -> Style {
        self.coloured(Style::new(), Color::Green)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style_of(variables: &[(&str, &str)]) -> TermStyle {
        TermStyle::of(|name| {
            let found = variables.iter().find(|(its, _)| *its == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn letters_follow_the_first_locale_that_is_set() {
        assert!(style_of(&[]).ascii);
        assert!(!style_of(&[("LANG", "en_GB.UTF-8")]).ascii);
        assert!(!style_of(&[("LC_CTYPE", "C.utf8"), ("LANG", "C")]).ascii);
        assert!(style_of(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]).ascii);
        assert!(!style_of(&[("LC_ALL", ""), ("LANG", "en_GB.UTF-8")]).ascii);
        assert!(style_of(&[("LANG", "C.UTF-8"), ("TERM", "linux")]).ascii);
    }

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted() {
        assert!(!style_of(&[("TERM", "xterm-256color")]).plain);
        assert!(style_of(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]).plain);
        assert!(!style_of(&[("TERM", "xterm"), ("NO_COLOR", "")]).plain);
        for term in ["xterm-mono", "vt100", "linux-m"] {
            assert!(style_of(&[("TERM", term)]).plain, "{term}");
        }
    }

    #[test]
    fn foreign_letters_are_replaced_only_where_they_cannot_be_shown() {
        let (ascii, plain) = (true, false);
        assert_eq!(TermStyle { ascii, plain }.text("caf\u{e9}:7"), "caf?:7");
        let ascii = false;
        assert_eq!(
            TermStyle { ascii, plain }.text("caf\u{e9}:7"),
            "caf\u{e9}:7"
        );
    }
}
