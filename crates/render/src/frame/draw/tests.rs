//! Tests of whole screens.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::frame::fixtures;
use crate::frame::input::Key;
use crate::frame::keys::press;

const UTF8: TermStyle = TermStyle {
    ascii: false,
    plain: false,
};
const ASCII: TermStyle = TermStyle {
    ascii: true,
    plain: true,
};

fn drawn(size: (u16, u16), term: TermStyle, keys: &[Key]) -> Terminal<TestBackend> {
    let model = keys.iter().copied().fold(fixtures::model(), press);
    let setting = Setting {
        words: fixtures::words(),
        length: Some(Duration::from_secs(3700)),
        term,
    };
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal
        .draw(|frame| draw(frame, &model, &setting))
        .unwrap();
    terminal
}

fn screen(size: (u16, u16), term: TermStyle, keys: &[Key]) -> String {
    drawn(size, term, keys).backend().to_string()
}

#[test]
fn of_80x24() {
    insta::assert_snapshot!(screen((80, 24), UTF8, &[]));
}

#[test]
fn of_120x40_with_the_second_gap_chosen() {
    insta::assert_snapshot!(screen((120, 40), UTF8, &[Key::Tab, Key::Down]));
}

#[test]
fn of_ascii_alone() {
    let text = screen((80, 24), ASCII, &[]);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn of_a_list_that_is_sorted_filtered_and_frozen() {
    let keys = [
        Key::Tab,
        Key::Letter('s'),
        Key::Letter('/'),
        Key::Letter('e'),
        Key::Letter('A'),
    ];
    let done = [&keys[..], &[Key::Backspace, Key::Enter, Key::Letter(' ')]].concat();
    insta::assert_snapshot!(screen((80, 16), UTF8, &keys));
    insta::assert_snapshot!(screen((80, 16), UTF8, &done));
}

#[test]
fn of_an_open_budget_and_of_help() {
    insta::assert_snapshot!(screen((80, 16), UTF8, &[Key::Enter]));
    insta::assert_snapshot!(screen((80, 16), UTF8, &[Key::Letter('?')]));
}

#[test]
fn without_room_it_says_how_much_it_needs() {
    insta::assert_snapshot!(screen((20, 5), UTF8, &[]));
}

#[test]
fn any_size_is_survived() {
    for columns in [0, 1, 59, 60, 61, 300] {
        for lines in [0, 1, 15, 16, 17, 100] {
            drawn((columns, lines), UTF8, &[]);
            drawn((columns, lines), ASCII, &[Key::Enter]);
        }
    }
}

#[test]
fn before_the_first_period_there_is_a_frame_all_the_same() {
    let setting = Setting {
        words: fixtures::words(),
        length: None,
        term: UTF8,
    };
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal
        .draw(|frame| draw(frame, &Model::default(), &setting))
        .unwrap();
    let text = terminal.backend().to_string();
    assert!(text.contains("vmnoise osnoise  0:00:00 "), "{text}");
}

#[test]
fn colour_is_used_only_where_it_is_wanted() {
    let colours = |term| {
        let terminal = drawn((80, 24), term, &[]);
        let cells = &terminal.backend().buffer().content;
        assert!(
            cells
                .iter()
                .any(|cell| cell.modifier.contains(Modifier::REVERSED)),
            "the chosen line shows without colour"
        );
        cells
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(colours(UTF8));
    assert!(!colours(ASCII));
}
