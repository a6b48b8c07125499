//! A browser without a window, driven as the W3C's WebDriver protocol says, through chromedriver.

use super::serving::http;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long the page may take to show what it should.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
    /// Its settings, cache and the rest, gone with it.
    _profile: TempDir,
}

/// The program of one of these names, in the usual places.
fn program(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names.iter().flat_map(|name| places.iter().map(move |place| place.join(name))).find(|path| path.is_file())
}

impl Browser {
    /// Starts one, or says what is missing.
    pub fn start() -> Result<Browser, &'static str> {
        let chromium =
            program(&["chromium", "chromium-browser", "google-chrome"]).ok_or("there is no chromium here")?;
        let driver = program(&["chromedriver", "chromium-driver"]).ok_or("there is no chromedriver here")?;
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|_| "chromedriver does not start")?;
        let port = BufReader::new(driver.stdout.as_mut().unwrap()).lines().map_while(Result::ok).find_map(|line| {
            let port = line.split_once("started successfully on port ")?.1;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Browser {
            driver,
            address: format!("127.0.0.1:{}", port.ok_or("chromedriver does not start")?),
            session: String::new(),
            _profile: profile,
        };
        let session = browser.new_session(&chromium);
        browser.session = session;
        Ok(browser)
    }

    fn new_session(&self, chromium: &Path) -> String {
        let folder = format!("--user-data-dir={}", self._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1100,900",
            &folder,
        ];
        let options = json!({"binary": chromium, "args": arguments});
        let wanted = json!({"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}});
        let body = json!({"capabilities": {"alwaysMatch": wanted}});
        let (status, answer) = http(&self.address, "POST", "/session", Some(&body));
        assert_eq!(status, 200, "{answer}");
        answer["value"]["sessionId"].as_str().unwrap().to_owned()
    }

    /// One command of the session; the value in its answer.
    #[track_caller]
    fn command(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let path = format!("/session/{}{path}", self.session);
        let (status, mut answer) = http(&self.address, method, &path, body.as_ref());
        assert_eq!(status, 200, "{path}: {answer}");
        answer["value"].take()
    }

    /// Goes to a page.
    pub fn open(&self, url: &str) {
        self.command("POST", "/url", Some(json!({"url": url})));
    }

    /// Whether the page sees a dark or a light screen.
    pub fn set_dark(&self, dark: bool) {
        let scheme = json!([{"name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" }}]);
        let body = json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": scheme}});
        self.command("POST", "/goog/cdp/execute", Some(body));
    }

    /// As wide as this many pixels.
    pub fn set_width(&self, width: u32) {
        let screen = json!({"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600});
        let body = json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": screen});
        self.command("POST", "/goog/cdp/execute", Some(body));
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn value(&self, expression: &str) -> Value {
        let script = format!("return {expression};");
        self.command("POST", "/execute/sync", Some(json!({"script": script, "args": []})))
    }

    fn element(&self, selector: &str) -> String {
        let found = self.command("POST", "/element", Some(json!({"using": "css selector", "value": selector})));
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    /// Types into a field, as a person does; `\u{E004}` is the Tab key.
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.command("POST", &format!("/element/{element}/value"), Some(json!({"text": text})));
    }

    /// Clicks.
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.command("POST", &format!("/element/{element}/click"), Some(json!({})));
    }

    /// Waits until an expression in the page is true.
    #[track_caller]
    pub fn wait_for(&self, expression: &str) {
        let begin = Instant::now();
        while self.value(expression) != true {
            if begin.elapsed() > PATIENCE {
                let page = self.value("document.body.innerText");
                panic!("the page never came to `{expression}`; it shows: {page}\n{}", self.complaints());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the browser says about errors in the page.
    pub fn complaints(&self) -> Value {
        self.command("POST", "/se/log", Some(json!({"type": "browser"})))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.command("DELETE", "", None)));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
