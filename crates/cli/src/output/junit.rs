//! For whatever reads the results of tests: a suite, with a case for each thing that was looked at.

use std::io;

use anyhow::Result;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

type Xml = Writer<Vec<u8>>;

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it should be.
    Good,
    /// Nothing is decided by it.
    Skipped,
    /// It is not.
    Failed,
    /// Nobody can tell: an error of the test, no failure of the machine.
    Unknown,
}

/// What one case is about.
pub struct Case {
    /// As it is called.
    pub name: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The same in the word of whoever looked.
    pub verdict: &'static str,
    /// In one line.
    pub message: String,
    /// What else is to be said, in lines.
    pub said: Vec<String>,
}

/// Cases that belong together.
pub struct Suite {
    /// As they are called.
    pub name: String,
    /// In their order.
    pub cases: Vec<Case>,
}

/// A document of these suites.
///
/// # Errors
/// If it cannot be written.
pub fn render(suites: &[Suite]) -> Result<String> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 4);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all = xml
        .create_element("testsuites")
        .with_attribute(("name", "vmnoise"));
    all.write_inner_content(|xml| suites.iter().try_for_each(|it| it.write(xml)))?;
    let mut text = String::from_utf8(xml.into_inner())?;
    text.push('\n');
    Ok(text)
}

impl Suite {
    fn write(&self, xml: &mut Xml) -> io::Result<()> {
        let cases = &self.cases;
        let count = |outcome| cases.iter().filter(|it| it.outcome == outcome).count();
        let counts = [
            ("tests", cases.len()),
            ("failures", count(Outcome::Failed)),
            ("errors", count(Outcome::Unknown)),
            ("skipped", count(Outcome::Skipped)),
        ];
        let counts = counts.map(|(name, count)| (name, count.to_string()));
        let suite = xml
            .create_element("testsuite")
            .with_attribute(("name", &*sayable(&self.name)));
        let suite = suite.with_attributes(counts.iter().map(|(name, count)| (*name, &**count)));
        suite.write_inner_content(|xml| cases.iter().try_for_each(|it| it.write(xml)))?;
        Ok(())
    }
}

impl Case {
    fn write(&self, xml: &mut Xml) -> io::Result<()> {
        let message = sayable(&self.message);
        let said = sayable(&self.said.join("\n"));
        let case = xml.create_element("testcase");
        let case =
            case.with_attributes([("name", &*sayable(&self.name)), ("classname", "vmnoise")]);
        case.write_inner_content(|xml| {
            let kind = match self.outcome {
                Outcome::Good => "system-out",
                Outcome::Skipped => "skipped",
                Outcome::Failed => "failure",
                Outcome::Unknown => "error",
            };
            let element = xml.create_element(kind);
            match self.outcome {
                Outcome::Good => {
                    let said = format!("{}: {message}\n{said}", self.verdict);
                    element.write_text_content(BytesText::new(said.trim_end()))?;
                }
                _ => {
                    let attributes = [("message", &*message), ("type", self.verdict)];
                    let element = element.with_attributes(attributes);
                    element.write_text_content(BytesText::new(&said))?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// XML has no word for some characters, be they escaped or not.
fn sayable(text: &str) -> String {
    let is_sayable = |letter: char| match letter {
        '\n' | '\t' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        letter => letter >= ' ',
    };
    text.replace(|letter| !is_sayable(letter), "\u{fffd}")
}
