//! Results that are printed while the run goes on.

/// Stdout, until its reader has seen enough.
#[derive(Debug, Default)]
pub struct Stream {
    gone: bool,
}

impl Stream {
    /// Prints at once.
    pub fn print(&mut self, text: &str) {
        if !self.gone {
            self.gone = super::write(text.as_bytes()).is_err();
        }
    }

    /// Whether printing has failed. The result, written last, tells why.
    pub fn is_gone(&self) -> bool {
        self.gone
    }
}
