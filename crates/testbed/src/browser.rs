//! Controls a headless Chromium with the DevTools protocol over two pipes. Records the messages and
//! the network requests of its page.
#![allow(clippy::unwrap_used)] // For tests only: a failed unwrap fails the test.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Maximum time to wait for an answer of the browser. It is long enough on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(180);

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    folder: TempDir,
    to: File,
    from: BufReader<File>,
    next: u64,
    session: Option<String>,
    /// Start of the addresses that the page may request.
    home: String,
    /// Events from the browser that answer no request.
    reported: Vec<Value>,
    done: Arc<AtomicBool>,
}

impl Browser {
    /// Starts the browser. If `dark`, pages see that the user prefers a dark color scheme.
    ///
    /// # Panics
    /// If Chromium is not installed, or does not answer. All functions of this type panic if the
    /// browser does not answer.
    pub fn start(dark: bool) -> Browser {
        let folder = tempfile::tempdir().unwrap();
        let pipe = |name: &str| {
            let path = folder.path().join(name);
            assert!(
                Command::new("mkfifo")
                    .arg(&path)
                    .status()
                    .unwrap()
                    .success()
            );
            path
        };
        let (to, from) = (pipe("to"), pipe("from"));
        let mut child = Command::new("sh")
            .args(["-c", "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking --hide-scrollbars --window-size=1300,1000 --user-data-dir=\"$0\" --remote-debugging-pipe 3<\"$1\" 4>\"$2\""])
            .args([&folder.path().join("profile"), &to, &from])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let done = Arc::new(AtomicBool::new(false));
        end_if_stuck(child.id(), Arc::clone(&done));
        let to = OpenOptions::new().write(true).open(to).unwrap();
        let from = File::open(from).unwrap_or_else(|error| {
            let _ = child.kill();
            panic!("{error}")
        });
        let mut browser = Browser {
            child,
            folder,
            to,
            from: BufReader::new(from),
            next: 0,
            session: None,
            home: "file://".to_owned(),
            reported: Vec::new(),
            done,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", target);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        let clock = json!({"timeDomain": "threadTicks"});
        browser.call("Performance.enable", clock);
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        browser.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
        browser
    }

    /// Opens a page and waits until its charts are drawn. Returns the time from the start of
    /// loading until then, by the page's own clock.
    pub fn open(&mut self, page: &Path) -> Duration {
        let url = format!("file://{}", page.display());
        self.call("Page.navigate", json!({"url": url}));
        let drawn = "document.documentElement?.dataset.drawn";
        self.wait_for(drawn);
        let ms = self.eval(drawn);
        Duration::from_millis(ms.as_str().unwrap().parse().unwrap())
    }

    /// Opens the page of this server. The page may send further requests to the same server.
    pub fn visit(&mut self, server: &str) {
        server.clone_into(&mut self.home);
        self.call("Page.navigate", json!({"url": server}));
    }

    /// Returns the CPU time that the page has used so far.
    pub fn busy(&mut self) -> Duration {
        let metrics = self.call("Performance.getMetrics", json!({}));
        let metrics = metrics["metrics"].as_array().unwrap();
        let of_tasks = metrics.iter().find(|it| it["name"] == "TaskDuration");
        Duration::from_secs_f64(of_tasks.unwrap()["value"].as_f64().unwrap())
    }

    /// Waits until the expression is true.
    pub fn wait_for(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.eval(&format!("!!({expression})")) != true {
            assert!(
                begun.elapsed() < PATIENCE,
                "{expression}: {:?}",
                self.reported
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the value of an expression on the page.
    pub fn eval(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", asked);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Presses the mouse button at `from`, and releases it at `to`.
    pub fn drag(&mut self, from: [f64; 2], to: [f64; 2]) {
        self.mouse("mouseMoved", from, 0);
        self.mouse("mousePressed", from, 1);
        if from != to {
            let middle = [f64::midpoint(from[0], to[0]), f64::midpoint(from[1], to[1])];
            self.mouse("mouseMoved", middle, 1);
            self.mouse("mouseMoved", to, 1);
        }
        self.mouse("mouseReleased", to, 1);
    }

    /// Scrolls the first element that this selector matches into view. Returns the middle of the
    /// element in window coordinates.
    pub fn middle(&mut self, selector: &str) -> [f64; 2] {
        let found = self.eval(&format!(
            "(() => {{ const it = document.querySelector({selector:?}); \
             it.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const box = it.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        [found[0].as_f64().unwrap(), found[1].as_f64().unwrap()]
    }

    /// Clicks on the first element that this selector matches.
    pub fn click(&mut self, selector: &str) {
        let at = self.middle(selector);
        self.drag(at, at);
    }

    /// Returns errors and warnings of the console, and requests to addresses that the page may not
    /// request.
    pub fn complaints(&mut self) -> Vec<String> {
        self.eval("0"); // Earlier events arrive before this answer.
        let reported = self.reported.iter();
        let complaints = reported.filter(|event| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                matches!(
                    event["params"]["type"].as_str(),
                    Some("error" | "warning" | "assert")
                )
            }
            Some("Log.entryAdded") => true,
            Some("Network.requestWillBeSent") => {
                let url = event["params"]["request"]["url"].as_str().unwrap_or("?");
                !url.starts_with(&self.home) && !url.starts_with("data:")
            }
            _ => false,
        });
        complaints.map(Value::to_string).collect()
    }

    /// Returns the number of files and addresses that pages have requested since the browser
    /// started.
    pub fn requests(&self) -> usize {
        let is_request = |event: &&Value| {
            let url = event["params"]["request"]["url"]
                .as_str()
                .unwrap_or_default();
            event["method"] == "Network.requestWillBeSent" && !url.starts_with("data:")
        };
        self.reported.iter().filter(is_request).count()
    }

    /// Saves a picture of the window to a PNG file.
    pub fn screenshot(&mut self, picture: &Path) {
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        self.keep(&shot["data"], picture);
    }

    /// Prints the page to a PDF.
    pub fn print(&mut self, pdf: &Path) {
        let printed = self.call("Page.printToPDF", json!({"preferCSSPageSize": true}));
        self.keep(&printed["data"], pdf);
    }

    fn keep(&self, base64: &Value, file: &Path) {
        let encoded = self.folder.path().join("base64");
        fs::write(&encoded, base64.as_str().unwrap()).unwrap();
        let decoded = Command::new("base64").arg("-d").arg(encoded).output();
        fs::write(file, decoded.unwrap().stdout).unwrap();
    }

    /// Sends a request, and waits for the answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut asked = json!({"id": self.next, "method": method, "params": params});
        if let Some(session) = &self.session {
            asked["sessionId"] = session.as_str().into();
        }
        let mut message = asked.to_string().into_bytes();
        message.push(0);
        self.to.write_all(&message).unwrap();
        loop {
            let mut message = Vec::new();
            self.from.read_until(0, &mut message).unwrap();
            assert_eq!(message.pop(), Some(0), "the browser ended at {method}");
            let message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == self.next {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.reported.push(message);
        }
    }

    fn mouse(&mut self, kind: &str, [x, y]: [f64; 2], buttons: u32) {
        let params = json!({
            "type": kind, "x": x, "y": y, "button": if kind == "mouseMoved" && buttons == 0 { "none" } else { "left" },
            "buttons": buttons, "clickCount": u32::from(kind != "mouseMoved"),
        });
        self.call("Input.dispatchMouseEvent", params);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends the browser after 6 minutes unless `done` is set. A browser that does not answer would
/// block its test forever.
fn end_if_stuck(pid: u32, done: Arc<AtomicBool>) {
    thread::spawn(move || {
        let begun = Instant::now();
        while !done.load(Ordering::Relaxed) {
            if begun.elapsed() > 2 * PATIENCE {
                let _ = Command::new("kill").arg(pid.to_string()).status();
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
    });
}
