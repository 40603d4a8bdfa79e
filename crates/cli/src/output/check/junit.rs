//! For whatever reads the results of tests: a suite for the recording, a case for each limit.

use std::io;

use anyhow::Result;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use vmnoise_explain::check::{Judgement, Verdict};

use super::{Checked, words};

type Xml = Writer<Vec<u8>>;

/// What one case is about.
struct Case {
    name: String,
    verdict: Verdict,
    /// In one line.
    message: String,
    said: Vec<String>,
}

/// A document; of what nobody can tell is an error of the test, no failure of the machine. A case of its own says
/// whether the run itself can keep any limit.
pub(super) fn render(checked: &Checked<'_>) -> Result<String> {
    let judged = &checked.judged;
    let mut cases = vec![of_run(checked)];
    cases.extend(judged.judgements.iter().map(|it| of_limit(checked, it)));
    let count = |verdict| cases.iter().filter(|it| it.verdict == verdict).count();
    let counts = [
        ("tests", cases.len()),
        ("failures", count(Verdict::Fail)),
        ("errors", count(Verdict::CannotTell)),
    ];
    let counts = counts.map(|(name, count)| (name, count.to_string()));
    let suite = format!("vmnoise check {}", checked.file);
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 4);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suites = xml
        .create_element("testsuites")
        .with_attribute(("name", "vmnoise"));
    suites.write_inner_content(|xml| {
        let counts = counts.iter().map(|(name, count)| (*name, &**count));
        let element = xml
            .create_element("testsuite")
            .with_attribute(("name", &*suite));
        let element = element.with_attributes(counts);
        element.write_inner_content(|xml| cases.iter().try_for_each(|it| it.write(xml)))?;
        Ok(())
    })?;
    let mut text = String::from_utf8(xml.into_inner())?;
    text.push('\n');
    Ok(text)
}

fn of_run(checked: &Checked<'_>) -> Case {
    let judged = &checked.judged;
    let mut said: Vec<String> = judged.reasons.iter().map(ToString::to_string).collect();
    said.extend(words::ask_for(checked));
    Case {
        name: "the run".into(),
        verdict: judged.of_run,
        message: words::run(checked),
        said,
    }
}

fn of_limit(checked: &Checked<'_>, judgement: &Judgement) -> Case {
    let quantity = &judgement.requirement.quantity;
    let at_most = words::value(Some(judgement.requirement.at_most), quantity.unit());
    let has = words::value(judgement.value, quantity.unit());
    Case {
        name: format!("{quantity} at most {at_most}"),
        verdict: judgement.verdict,
        message: format!("{quantity} is {has}, limit {at_most}"),
        said: words::why(checked, judgement),
    }
}

impl Case {
    fn write(&self, xml: &mut Xml) -> io::Result<()> {
        let verdict = words::verdict(self.verdict);
        let case = xml.create_element("testcase");
        let case = case.with_attributes([("name", &*self.name), ("classname", "vmnoise")]);
        case.write_inner_content(|xml| {
            let (kind, is_good) = match self.verdict {
                Verdict::Pass | Verdict::Warn => ("system-out", true),
                Verdict::Fail => ("failure", false),
                Verdict::CannotTell => ("error", false),
            };
            let said = self.said.join("\n");
            match is_good {
                true => {
                    let said = format!("{verdict}: {}\n{said}", self.message);
                    let out = xml.create_element(kind);
                    out.write_text_content(BytesText::new(said.trim_end()))?;
                }
                false => {
                    let attributes = [("message", &*self.message), ("type", verdict)];
                    let kind = xml.create_element(kind).with_attributes(attributes);
                    kind.write_text_content(BytesText::new(&said))?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}
