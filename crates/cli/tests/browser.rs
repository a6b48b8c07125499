//! The page in a real browser: a phrase is typed, a text is pasted, a training is followed. Where there is no chromium
//! with its driver, the test says so and does nothing.

#![cfg(unix)]

mod common;
mod serving;
mod webdriver;

use common::Place;
use serde_json::Value;
use serving::Serving;
use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};
use webdriver::Browser;

/// The page shows the answer to what was typed last.
const SETTLED: &str = "!document.querySelector('[aria-busy=true]')";

/// Tab, as WebDriver writes it.
const TAB: &str = "\u{E004}";

#[test]
fn the_page_predicts_colours_and_follows_a_training() {
    let browser = match Browser::start() {
        Ok(browser) => browser,
        Err(missing) => {
            let _ = writeln!(std::io::stderr(), "skipped: {missing} (Debian has chromium and chromium-driver)");
            return;
        }
    };
    let place = Place::new();
    let (one, two) = (place.trained("runs/one"), place.trained("runs/two"));
    let mut kn = common::bowline(["train", "--model", "kn", "--min-count", "3", "--data"]);
    common::finish(kn.arg(place.path("corpus")).arg("--out").arg(place.path("runs/kn"))).success();
    let server = Serving::new(&[&one, &two], ["--runs".as_ref(), place.path("runs").as_os_str()]);
    browser.open(&format!("http://{}/", server.address));
    browser.wait_for("document.documentElement.dataset.ready === 'yes'");
    types_a_phrase(&browser);
    continues_a_text(&browser);
    pastes_a_text(&browser);
    looks_for_neighbours(&browser);
    follows_a_training(&browser, &place);
    fits_a_phone_in_both_themes(&browser);
    let complaints = browser.complaints();
    // The browser notes the answer to an unknown word, which is 404; anything else is an error in the page.
    let others: Vec<&Value> =
        complaints.as_array().unwrap().iter().filter(|c| !c["message"].as_str().unwrap().contains("404")).collect();
    assert!(others.is_empty(), "{others:?}");
    says_when_the_server_is_gone(&browser, server);
}

fn types_a_phrase(browser: &Browser) {
    browser.wait_for(SETTLED);
    browser.type_into("#phrase", "bababa dobaba");
    browser.wait_for(SETTLED);
    for list in [0, 1] {
        let words = browser.value(&format!("document.querySelectorAll('#next-list-{list} button').length"));
        assert_eq!(words, 12);
    }
    assert_eq!(browser.value("document.getElementById('next-model-1').value"), "two");
    // A click appends a word, and so does Tab; new predictions come.
    browser.click("#next-list-1 button:not(:has(.special))");
    browser.wait_for(SETTLED);
    let grown = browser.value("document.getElementById('phrase').value");
    assert!(grown.as_str().unwrap().trim_end().len() > "bababa dobaba".len(), "{grown}");
    browser.type_into("#phrase", TAB);
    browser.wait_for(&format!("document.getElementById('phrase').value !== {grown}"));
    browser.wait_for(SETTLED);
    let share = browser.value(
        "Math.max(...[...document.querySelectorAll('#next .bars button')].map(b => +b.style.getPropertyValue('--share')))",
    );
    assert_eq!(share.as_f64(), Some(1.0));
    // Bars stand after the words.
    let after = "(() => { const [word, bar] = document.querySelector('#next-list-0 button').children; \
                 return bar.className === 'bar' && bar.getBoundingClientRect().left >= word.getBoundingClientRect().right; })()";
    assert_eq!(browser.value(after), true);
    // Rare words can be hidden.
    browser.click("#hide-unk");
    browser.wait_for(SETTLED);
    assert_eq!(
        browser
            .value("[...document.querySelectorAll('#next .bars .special')].some(w => w.textContent === 'a rare word')"),
        false
    );
    // A word that the model does not know is named.
    browser.type_into("#phrase", "zebra ");
    browser.wait_for("document.getElementById('next-note').textContent.includes('zebra')");
}

fn pastes_a_text(browser: &Browser) {
    browser.click("#tab-surprise");
    browser.wait_for("document.getElementById('next').hidden && !document.getElementById('surprise').hidden");
    browser.type_into("#text", "bababa dobaba zebra\nfibaba");
    // Three words and an end, one word and an end.
    browser.wait_for("document.querySelectorAll('#surprise-words button').length === 6");
    let colours = browser.value(
        "[...document.querySelectorAll('#surprise-words button')].map(b => getComputedStyle(b).backgroundColor)",
    );
    let colours: Vec<&str> = colours.as_array().unwrap().iter().map(|c| c.as_str().unwrap()).collect();
    assert!(colours.iter().any(|colour| *colour != colours[0]), "all words have one colour: {colours:?}");
    assert_eq!(browser.value("document.querySelectorAll('#surprise-words .unknown').length"), 1);
    browser.wait_for("/perplexity/.test(document.getElementById('surprise-sum').textContent)");
    browser.click("#surprise-words button");
    browser.wait_for("/bits, one in/.test(document.getElementById('surprise-detail').textContent)");
    assert_eq!(
        browser.value("document.querySelectorAll('#surprise-top button').length"),
        6,
        "what was expected, as bars"
    );
    // The unknown word is hatched, and the figures say what it costs.
    let hatched = "getComputedStyle(document.querySelector('#surprise-words .unknown')).backgroundImage";
    assert!(browser.value(hatched).as_str().unwrap().starts_with("repeating-linear-gradient"));
    browser
        .wait_for("/1unknown word.*perplexity without them/.test(document.getElementById('surprise-sum').textContent)");
    // The example is the model's own validation text.
    browser.click("#example");
    browser.wait_for("document.getElementById('text').value.split('\\n').length === 3");
    browser.wait_for(SETTLED);
    assert_eq!(browser.value("document.querySelectorAll('#surprise-words .unknown').length"), 0);
}

/// A text goes on word by word, the same for the same seed.
fn continues_a_text(browser: &Browser) {
    browser.click("#tab-continue");
    browser.type_into("#prompt", "bababa dobaba");
    let tell = |seed: u32| {
        browser.value("document.getElementById('seed').value = ''");
        browser.type_into("#seed", &seed.to_string());
        browser.click("#go");
        browser.wait_for("document.querySelector('#told .drawn') && document.getElementById('halt').disabled");
        browser.value("document.getElementById('told').textContent").as_str().unwrap().to_owned()
    };
    // Some seeds end the sentence at once.
    let texts: Vec<String> = (1..=6).map(tell).collect();
    assert!(texts.iter().all(|text| text.starts_with("bababa dobaba")), "{texts:?}");
    let longest = (0..6).max_by_key(|&i| texts[i].len()).unwrap();
    assert!(texts[longest].len() > "bababa dobaba ".len(), "{texts:?}");
    assert!(texts.iter().any(|text| *text != texts[longest]), "{texts:?}");
    assert_eq!(tell(longest as u32 + 1), texts[longest]);
}

fn looks_for_neighbours(browser: &Browser) {
    browser.click("#tab-neighbours");
    // It starts with a word of its own, and a map with that word on it.
    browser.wait_for("document.getElementById('word').value.length > 2");
    browser.wait_for("document.querySelectorAll('#neighbours-list button').length === 15");
    browser
        .wait_for("document.querySelector('#map-view .middle')?.textContent === document.getElementById('word').value");
    let far = browser.value("document.querySelector('#map-view .marked').dataset.word");
    browser.value("document.querySelector('#map-view').dispatchEvent(new KeyboardEvent('keydown', {key: '+'}))");
    browser.click("#map-home");
    browser.click("#neighbours-list li:first-child button");
    browser.wait_for("document.querySelectorAll('#map-view .marked').length > 0");
    assert!(far.as_str().is_some_and(|word| !word.is_empty()));
    browser.value("document.getElementById('word').value = ''");
    browser.type_into("#word", "bababa");
    browser.wait_for("document.querySelectorAll('#neighbours-list button').length === 15");
    browser.type_into("#word", "qqqqqqqqqqqq");
    browser.wait_for("/not among the model/.test(document.getElementById('neighbours-note').textContent)");
}

/// A training that would take for ever, until it is dropped.
struct Training(Child);

impl Drop for Training {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A run appears while the page looks on, and its curve grows.
fn follows_a_training(browser: &Browser, place: &Place) {
    browser.click("#tab-curves");
    browser.wait_for("document.querySelectorAll('#runs-table tbody tr').length === 3");
    // The n-gram model is a level with its name, the axes have titles, and its vocabulary is told apart.
    assert_eq!(browser.value("document.querySelectorAll('#chart .level[data-run=kn]').length"), 1);
    assert!(
        browser
            .value("document.getElementById('chart').textContent")
            .as_str()
            .unwrap()
            .contains("validation perplexity")
    );
    assert_eq!(browser.value("document.querySelectorAll('#runs-table .other').length"), 1);
    let three = "document.querySelectorAll('#chart circle[data-run=three]').length";
    assert_eq!(browser.value(three), 0);
    let mut command = place.train("runs/three");
    command.args(["--epochs", "100000", "--patience", "0"]).stdout(Stdio::null()).stderr(Stdio::null());
    let training = Training(command.spawn().unwrap());
    browser.wait_for(&format!("{three} > 0"));
    let first = browser.value(three);
    browser.wait_for(&format!("{three} > {first}"));
    browser.wait_for("document.querySelector('tr[data-run=three]').textContent.includes('running')");
    drop(training);
    // What is gone from the folder is gone from the page; another run in its place is shown from its beginning.
    fs::remove_dir_all(place.path("runs/three")).unwrap();
    browser.wait_for(&format!("{three} === 0"));
    place.trained("runs/three");
    browser.wait_for(&format!("{three} === 1"));
    browser.wait_for("document.querySelector('tr[data-run=three]').textContent.includes('done')");
}

fn fits_a_phone_in_both_themes(browser: &Browser) {
    browser.set_width(390);
    let paper = "getComputedStyle(document.documentElement).backgroundColor";
    browser.set_dark(false);
    let light = browser.value(paper);
    browser.set_dark(true);
    browser.wait_for(&format!("{paper} !== {light}"));
    let rows = "new Set([...document.querySelectorAll('nav button')].map(e => e.offsetTop)).size";
    assert_eq!(browser.value(rows), 1, "the tabs take more than one row");
    for tab in ["next", "continue", "surprise", "neighbours", "curves"] {
        browser.click(&format!("#tab-{tab}"));
        let width = browser.value("document.documentElement.scrollWidth");
        assert!(width.as_u64().unwrap() <= 390, "{tab} is {width} wide");
        let cut = "[...document.querySelectorAll('main *, nav button')].filter(e => e.offsetParent && \
                   e.getBoundingClientRect().right > 391).map(e => e.outerHTML.slice(0, 200))";
        assert_eq!(browser.value(cut), serde_json::json!([]), "something of {tab} is cut off");
    }
    browser.set_width(1100);
}

fn says_when_the_server_is_gone(browser: &Browser, server: Serving) {
    browser.click("#tab-next");
    drop(server);
    browser.type_into("#phrase", " bababa");
    browser.wait_for("!document.getElementById('trouble').hidden");
}
