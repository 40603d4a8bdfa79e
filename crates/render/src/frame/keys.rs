//! Effects of keys: `press` returns the model after a key.

use super::input::Key;
use super::model::{Model, OpenBudget, Pane};

/// Number of lines that a page key moves.
const PAGE: isize = 10;

/// Keys and their effects, as shown by `?`.
pub const HELP: [(&str, &str); 11] = [
    ("?", "show or hide these keys"),
    ("q, Ctrl-C", "end the run and print its result"),
    ("space", "pause the display, or continue"),
    ("Tab, left, right", "change to the other list"),
    ("up, down, page, Home, End", "move in the list"),
    ("Enter", "open the budget of the chosen gap"),
    ("s", "sort the list by the next column"),
    ("/", "show only lines that contain this text"),
    ("Esc", "close, or show all lines again"),
    ("Ctrl-L", "redraw the screen"),
    ("Ctrl-Z", "stop; continue with `fg`"),
];

/// Returns the list of keys for the help of the command line.
pub fn explained() -> String {
    let line = |(key, what): (&str, &str)| format!("  {key:<27}{what}\n");
    let lines: String = HELP.map(line).concat();
    format!("Keys of the live frame:\n{lines}")
        .trim_end()
        .to_owned()
}

/// Returns the model after this key.
pub fn press(mut model: Model, key: Key) -> Model {
    if key == Key::Ctrl('c') {
        model.quits = true;
        return model;
    }
    if model.typing {
        return type_filter(model, key);
    }
    model.notice = None;
    match key {
        Key::Letter('q') => model.quits = true,
        Key::Letter('?') => model.help = !model.help,
        Key::Letter(' ') => model.freeze_or_go_on(),
        Key::Escape => close(&mut model),
        // While the help is shown, all other keys have no effect.
        _ if model.help => {}
        Key::Up => model.go(-1),
        Key::Down => model.go(1),
        Key::PageUp => model.go(-PAGE),
        Key::PageDown => model.go(PAGE),
        Key::Home => model.go(isize::MIN),
        Key::End => model.go(isize::MAX),
        Key::Enter => match model.opened {
            Some(_) => model.opened = None,
            None => {
                model.opened = model
                    .chosen_gap()
                    .cloned()
                    .map(|gap| OpenBudget { gap, above: 0 })
            }
        },
        _ if model.opened.is_some() => {}
        Key::Tab | Key::BackTab | Key::Left | Key::Right => {
            model.pane = match model.pane {
                Pane::Rows => Pane::Gaps,
                Pane::Gaps => Pane::Rows,
            };
        }
        Key::Letter('s') => model.sort(),
        Key::Letter('/') => model.typing = true,
        _ => {}
    }
    model
}

fn type_filter(mut model: Model, key: Key) -> Model {
    let filter = &mut model.list().filter;
    match key {
        Key::Letter(letter) => filter.push(letter),
        Key::Backspace => drop(filter.pop()),
        Key::Escape => {
            filter.clear();
            model.typing = false;
        }
        Key::Enter => model.typing = false,
        _ => {}
    }
    model
}

/// Closes the help, or else the open budget, or else clears the filter.
fn close(model: &mut Model) {
    if model.help {
        model.help = false;
    } else if model.opened.is_some() {
        model.opened = None;
    } else {
        model.list().filter.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::fixtures;

    fn after(keys: &[Key]) -> Model {
        let keys = keys.iter().copied();
        keys.fold(fixtures::model(), press)
    }

    fn typed(text: &str) -> Vec<Key> {
        text.chars().map(Key::Letter).collect()
    }

    #[test]
    fn both_ways_to_end_end() {
        assert!(!after(&[]).quits);
        assert!(after(&typed("q")).quits);
        assert!(after(&[Key::Ctrl('c')]).quits);
        assert!(after(&[Key::Letter('/'), Key::Ctrl('c')]).quits);
        assert!(!after(&typed("/q")).quits, "that is a letter of a name");
        assert!(after(&typed("?q")).quits);
    }

    #[test]
    fn time_stands_still_and_goes_on_with_the_latest() {
        let mut model = after(&typed(" "));
        assert!(model.is_frozen());
        let before = model.shown().clone();
        model.take(fixtures::later());
        assert_eq!(*model.shown(), before);
        let model = press(model, Key::Letter(' '));
        assert_eq!(*model.shown(), fixtures::later());
        let curve = &model.curves[&0];
        assert_eq!(
            curve.back(),
            Some(&50.0),
            "what was not shown is in the curve"
        );
    }

    #[test]
    fn lists_take_turns_and_keep_their_lines() {
        let model = after(&[Key::Down, Key::Tab, Key::Down, Key::Down]);
        assert_eq!(model.pane, Pane::Gaps);
        assert_eq!(model.rows.chosen, Some(1));
        assert_eq!(model.gaps.chosen, Some(30));
        let model = press(model, Key::Home);
        assert_eq!(model.gaps.chosen, Some(10));
        assert_eq!(press(model, Key::BackTab).pane, Pane::Rows);
    }

    #[test]
    fn enter_opens_the_chosen_budget_which_stays() {
        let mut model = after(&[Key::Tab, Key::Down, Key::Enter]);
        model.take(fixtures::later());
        let opened = model.opened.clone().map(|opened| opened.gap.row.key);
        assert_eq!(opened, Some(20));
        let model = press(press(model, Key::Down), Key::Letter('s'));
        assert_eq!(model.opened.as_ref().map(|opened| opened.above), Some(1));
        assert_eq!(model.gaps.sorted_by, None, "the list is not to be seen");
        assert_eq!(press(model.clone(), Key::Escape).opened, None);
        assert_eq!(press(model, Key::Enter).opened, None);
    }

    #[test]
    fn a_filter_is_typed_mended_and_dropped() {
        let mut keys = vec![Key::Tab];
        keys.extend(typed("/strsx"));
        keys.push(Key::Backspace);
        let model = after(&keys);
        assert_eq!((model.gaps.filter.as_str(), model.typing), ("strs", true));
        let model = press(model, Key::Enter);
        assert!(!model.typing);
        assert_eq!(model.rows.filter, "", "each list has its own");
        assert_eq!(press(model, Key::Escape).gaps.filter, "");
    }

    #[test]
    fn s_goes_through_the_columns_of_its_list() {
        let columns = fixtures::words().gap_columns.len();
        let mut keys = vec![Key::Tab];
        keys.extend(vec![Key::Letter('s'); columns]);
        let model = after(&keys);
        assert_eq!(model.gaps.sorted_by, Some(columns - 1));
        assert_eq!(press(model, Key::Letter('s')).gaps.sorted_by, None);
    }

    #[test]
    fn an_unknown_key_changes_nothing() {
        let model = after(&[Key::Letter('x'), Key::Ctrl('g')]);
        assert_eq!(format!("{model:?}"), format!("{:?}", fixtures::model()));
    }
}
