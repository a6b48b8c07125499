//! The real code path against a server on loopback.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use super::test_server::{Reply, Server};
use super::*;
use crate::corpus::{Corpus, CorpusOptions, SplitName, sha256_hex};

const ADVICE: &str = "\n  try: the same command later (it continues where it stopped), or get the files elsewhere and \
                      use `--data DIR`";

/// Three small texts in the place of the Penn Treebank.
struct Case {
    texts: [Vec<u8>; 3],
    corpus: PublicCorpus,
    dir: tempfile::TempDir,
    server: Server,
}

impl Case {
    fn new() -> Case {
        let texts = ["the cat saw the dog\n", "the dog\n", "a cat\n"].map(|line| line.repeat(20_000).into_bytes());
        let names = ["ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"];
        let files = [0, 1, 2].map(|index| KnownFile {
            split: SplitName::ALL[index],
            name: names[index],
            bytes: texts[index].len() as u64,
            sha256: Box::leak(sha256_hex(&texts[index]).into_boxed_str()),
        });
        let corpus = PublicCorpus::for_test(files);
        Case { texts, corpus, dir: tempfile::tempdir().unwrap(), server: Server::start() }
    }

    /// Puts the three files on the server under a folder, and says where.
    fn serve(&self, folder: &str) -> Mirror {
        for (file, text) in self.corpus.files.iter().zip(&self.texts) {
            self.server.on(&format!("{folder}/{}", file.name), [Reply::ok(text.clone())]);
        }
        self.corpus.mirror_at(&self.server.url(folder))
    }

    fn archive(&self, path: &str, kind: MirrorKind) -> Mirror {
        Mirror { url: self.server.url(path).into(), kind }
    }

    fn fetch(&self, mirrors: &[Mirror]) -> (crate::Result<()>, Vec<String>) {
        self.fetch_with(FetchOptions {
            mirrors: Some(mirrors.to_vec()),
            patience: Duration::from_secs(5),
            use_proxy: false,
        })
    }

    /// The result, and what was reported on the way (without the count of bytes).
    fn fetch_with(&self, options: FetchOptions) -> (crate::Result<()>, Vec<String>) {
        let mut log = Vec::new();
        let base = self.server.url("");
        let result = fetch(&self.corpus, self.dir.path(), &options, &mut |progress| match progress {
            Progress::Present { file } => log.push(format!("present {file}")),
            Progress::Trying { url } => log.push(format!("trying {}", url.replace(&base, ""))),
            Progress::Received { bytes, total, .. } => assert!(total.is_none_or(|total| bytes <= total)),
            Progress::Failed { url, reason } => log.push(format!("failed {}: {reason}", url.replace(&base, ""))),
            Progress::Arrived { file } => log.push(format!("arrived {file}")),
        });
        (result, log)
    }

    /// The names in the folder, without the lock.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    }

    #[track_caller]
    fn check_complete(&self) {
        assert_eq!(self.names(), ["ptb.test.txt", "ptb.train.txt", "ptb.valid.txt"]);
        for check in verify(&self.corpus, self.dir.path()).unwrap() {
            assert_eq!(check.status, FileStatus::Ok, "{}", check.name);
        }
    }

    /// A message with the parts that change from run to run replaced.
    fn message(&self, error: &crate::Error) -> String {
        error.to_string().replace(&self.server.url(""), "SERVER").replace(&self.dir.path().display().to_string(), "DIR")
    }
}

fn tgz(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, contents) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        // Written as is: `append_data` would drop the leading `./` that real archives have.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *contents).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, contents) in members {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(contents).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn files_arrive_and_are_not_downloaded_twice() {
    let case = Case::new();
    let mirror = case.serve("/a");
    let (result, log) = case.fetch(std::slice::from_ref(&mirror));
    result.unwrap();
    case.check_complete();
    assert_eq!(log[..2], ["trying /a/ptb.train.txt", "arrived ptb.train.txt"]);
    assert_eq!(case.server.requests().len(), 3);
    Corpus::from_dir(case.dir.path(), CorpusOptions::default()).unwrap();

    let (result, log) = case.fetch(&[mirror]);
    result.unwrap();
    assert_eq!(log, ["present ptb.train.txt", "present ptb.valid.txt", "present ptb.test.txt"]);
    assert_eq!(case.server.requests().len(), 3, "nothing was asked for");
}

#[test]
fn only_the_missing_file_is_downloaded() {
    let case = Case::new();
    let mirror = case.serve("/a");
    fs::write(case.dir.path().join("ptb.valid.txt"), &case.texts[1]).unwrap();
    fs::write(case.dir.path().join("ptb.test.txt"), &case.texts[2]).unwrap();
    case.fetch(&[mirror]).0.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests(), ["/a/ptb.train.txt"]);
}

#[test]
fn a_cut_download_goes_on_where_it_stopped() {
    let case = Case::new();
    let mirror = case.serve("/a");
    let train = Reply::ok(case.texts[0].clone());
    case.server.on("/a/ptb.train.txt", [train.clone().cut_after(150_000), train]);
    let (result, log) = case.fetch(std::slice::from_ref(&mirror));
    assert_eq!(
        case.message(&result.unwrap_err()),
        format!(
            "ptb: no mirror gave ptb.train.txt; tried:\n    SERVER/a/ptb.train.txt: \
             the connection broke after 150000 bytes: closed by the other side{ADVICE}"
        )
    );
    assert_eq!(log[2], "trying /a/ptb.valid.txt", "the other files still come");
    assert_eq!(case.names(), ["ptb.test.txt", "ptb.train.txt.part", "ptb.valid.txt"]);

    case.fetch(&[mirror]).0.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests().last().unwrap(), "/a/ptb.train.txt bytes=150000-");
}

#[test]
fn the_second_mirror_goes_on_where_the_first_was_cut() {
    let case = Case::new();
    let mirrors = [case.serve("/a"), case.serve("/b")];
    case.server.on("/a/ptb.train.txt", [Reply::ok(case.texts[0].clone()).cut_after(100_000)]);
    let (result, log) = case.fetch(&mirrors);
    result.unwrap();
    case.check_complete();
    assert_eq!(log[1], "failed /a/ptb.train.txt: the connection broke after 100000 bytes: closed by the other side");
    assert_eq!(case.server.requests().last().unwrap(), "/b/ptb.train.txt bytes=100000-");
}

#[test]
fn a_server_that_ignores_ranges_is_read_from_the_start() {
    let case = Case::new();
    let mirror = case.serve("/a");
    let train = Reply { ranges: false, ..Reply::ok(case.texts[0].clone()) };
    case.server.on("/a/ptb.train.txt", [train]);
    fs::write(case.dir.path().join("ptb.train.txt.part"), &case.texts[0][..1000]).unwrap();
    case.fetch(&[mirror]).0.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests()[0], "/a/ptb.train.txt bytes=1000-");
}

#[test]
fn a_server_that_answers_with_another_range_is_asked_for_the_whole() {
    let case = Case::new();
    let mirror = case.serve("/a");
    let train = Reply::ok(case.texts[0].clone());
    case.server.on("/a/ptb.train.txt", [Reply { claimed_start: Some(0), ..train.clone() }, train]);
    fs::write(case.dir.path().join("ptb.train.txt.part"), &case.texts[0][..1000]).unwrap();
    case.fetch(&[mirror]).0.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests()[..2], ["/a/ptb.train.txt bytes=1000-", "/a/ptb.train.txt"]);
}

#[test]
fn a_wrong_beginning_is_thrown_away_and_the_same_mirror_tried_once_more() {
    let case = Case::new();
    let mirror = case.serve("/a");
    fs::write(case.dir.path().join("ptb.train.txt.part"), vec![b'x'; 5000]).unwrap();
    let (result, log) = case.fetch(&[mirror]);
    result.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests()[..2], ["/a/ptb.train.txt bytes=5000-", "/a/ptb.train.txt"]);
    assert!(!log.iter().any(|line| line.starts_with("failed")), "{log:?}");
}

#[test]
fn a_complete_part_only_needs_its_name_and_one_too_long_starts_anew() {
    let case = Case::new();
    let mirror = case.serve("/a");
    fs::write(case.dir.path().join("ptb.train.txt.part"), &case.texts[0]).unwrap();
    fs::write(case.dir.path().join("ptb.valid.txt.part"), &case.texts[0]).unwrap();
    case.fetch(&[mirror]).0.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests(), ["/a/ptb.valid.txt", "/a/ptb.test.txt"]);
}

#[test]
fn wrong_content_never_gets_the_files_name() {
    let case = Case::new();
    let (wrong, right) = (case.serve("/wrong"), case.serve("/right"));
    let mut flipped = case.texts[0].clone();
    flipped[77] ^= 1;
    case.server.on("/wrong/ptb.train.txt", [Reply::ok(flipped.clone())]);
    let (result, log) = case.fetch(std::slice::from_ref(&wrong));
    let reason =
        format!("not this corpus: its SHA-256 is {}, not {}", sha256_hex(&flipped), sha256_hex(&case.texts[0]));
    assert_eq!(
        case.message(&result.unwrap_err()),
        format!("ptb: no mirror gave ptb.train.txt; tried:\n    SERVER/wrong/ptb.train.txt: {reason}{ADVICE}")
    );
    assert_eq!(log[1], format!("failed /wrong/ptb.train.txt: {reason}"));
    assert_eq!(case.names(), ["ptb.test.txt", "ptb.valid.txt"], "neither the file nor its part");

    case.fetch(&[wrong, right]).0.unwrap();
    case.check_complete();
}

#[test]
fn a_file_of_another_size_is_not_even_read() {
    let case = Case::new();
    let mirror = case.serve("/a");
    case.server.on("/a/ptb.train.txt", [Reply::ok("<html>Please log in</html>")]);
    // Without an announced length it is read, but not beyond its size.
    let endless = Reply { length: false, ..Reply::ok(vec![b'x'; 10_000_000]) };
    case.server.on("/a/ptb.valid.txt", [endless]);
    case.server.on("/a/ptb.test.txt", [Reply { length: false, ..Reply::ok("short") }]);
    let (result, _) = case.fetch(&[mirror]);
    assert_eq!(
        case.message(&result.unwrap_err()),
        format!(
            "ptb: no mirror gave ptb.train.txt, ptb.valid.txt, ptb.test.txt; tried:\n    \
             SERVER/a/ptb.train.txt: another file: 26 bytes instead of 400000\n    \
             SERVER/a/ptb.valid.txt: another file: more than 160000 bytes\n    \
             SERVER/a/ptb.test.txt: the file ended early, after 5 bytes{ADVICE}"
        )
    );
    assert_eq!(case.names(), ["ptb.test.txt.part"]);
}

#[test]
fn when_all_mirrors_fail_each_is_listed_with_its_reason() {
    let case = Case::new();
    // A port that was free a moment ago refuses connections.
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = case.corpus.mirror_at(&format!("http://{dead}/x/"));
    let absent = case.corpus.mirror_at(&case.server.url("/absent"));
    case.server.on("/gone.zip", [Reply::status("503 Service Unavailable")]);
    let gone = case.archive("/gone.zip", MirrorKind::Zip { member: "ptb.{split}.txt".into() });
    let (result, log) = case.fetch(&[refused, absent, gone]);
    assert_eq!(
        case.message(&result.unwrap_err()).replace(&dead.to_string(), "DEAD"),
        format!(
            "ptb: no mirror gave ptb.train.txt, ptb.valid.txt, ptb.test.txt; tried:\n    \
             http://DEAD/x/ptb.train.txt: connection refused\n    \
             SERVER/absent/ptb.train.txt: the server answered 404 Not Found\n    \
             SERVER/absent/ptb.valid.txt: the server answered 404 Not Found\n    \
             SERVER/absent/ptb.test.txt: the server answered 404 Not Found\n    \
             SERVER/gone.zip: the server answered 503 Service Unavailable{ADVICE}"
        )
    );
    assert_eq!(log.iter().filter(|line| line.starts_with("failed")).count(), 5);
    assert_eq!(case.names(), [""; 0]);
}

#[test]
fn a_server_that_falls_silent_is_given_up() {
    let case = Case::new();
    let mirror = case.serve("/a");
    let silent = Reply { stall: Duration::from_millis(1500), ..Reply::ok(case.texts[0].clone()) };
    case.server.on("/a/ptb.train.txt", [silent]);
    let patience = Duration::from_millis(300);
    let (result, log) = case.fetch_with(FetchOptions { mirrors: Some(vec![mirror]), patience, use_proxy: false });
    assert!(result.is_err());
    assert_eq!(log[1], "failed /a/ptb.train.txt: the connection broke after 0 bytes: no answer in time");
}

#[test]
fn redirections_are_followed() {
    let case = Case::new();
    let target = case.serve("/real");
    for file in &case.corpus.files {
        let location = Some(case.server.url(&format!("/real/{}", file.name)));
        case.server.on(&format!("/moved/{}", file.name), [Reply { location, ..Reply::status("302 Found") }]);
    }
    let moved = case.corpus.mirror_at(&case.server.url("/moved"));
    assert_ne!(moved, target);
    fs::write(case.dir.path().join("ptb.train.txt.part"), &case.texts[0][..1000]).unwrap();
    case.fetch(&[moved]).0.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests()[1], "/real/ptb.train.txt bytes=1000-", "the range is asked for again");
}

#[test]
fn progress_counts_from_what_was_there_to_the_end() {
    let case = Case::new();
    let mirror = case.serve("/a");
    fs::write(case.dir.path().join("ptb.train.txt.part"), &case.texts[0][..1000]).unwrap();
    let options = FetchOptions { mirrors: Some(vec![mirror]), use_proxy: false, ..FetchOptions::default() };
    let mut received = Vec::new();
    fetch(&case.corpus, case.dir.path(), &options, &mut |progress| {
        if let Progress::Received { url, bytes, total } = progress
            && url.ends_with("train.txt")
        {
            received.push((bytes, total));
        }
    })
    .unwrap();
    assert_eq!(received.first(), Some(&(1000, Some(400_000))));
    assert_eq!(received.last(), Some(&(400_000, Some(400_000))));
    assert!(received.is_sorted());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_the_download_at_once() {
    let case = Case::new();
    let mirrors = [case.serve("/a"), case.serve("/b")];
    std::os::unix::fs::symlink("/dev/full", case.dir.path().join("ptb.train.txt.part")).unwrap();
    let (result, log) = case.fetch(&mirrors);
    assert_eq!(
        case.message(&result.unwrap_err()),
        "DIR/ptb.train.txt.part: cannot write: No space left on device (os error 28)"
    );
    assert_eq!(log, ["trying /a/ptb.train.txt"], "another mirror would not help");
}

fn members(case: &Case) -> [(&'static str, &[u8]); 4] {
    [
        ("./simple-examples/README", b"about"),
        ("./simple-examples/data/ptb.test.txt", &case.texts[2]),
        ("./simple-examples/data/ptb.train.txt", &case.texts[0]),
        ("./simple-examples/data/ptb.valid.txt", &case.texts[1]),
    ]
}

const TGZ_MEMBER: &str = "simple-examples/data/ptb.{split}.txt";

#[test]
fn files_come_out_of_a_tgz() {
    let case = Case::new();
    case.server.on("/x/simple-examples.tgz", [Reply::ok(tgz(&members(&case)))]);
    let mirror = case.archive("/x/simple-examples.tgz", MirrorKind::Tgz { member: TGZ_MEMBER.into() });
    let (result, log) = case.fetch(&[mirror]);
    result.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests().len(), 1, "one download for all three");
    assert_eq!(log[1..], ["arrived ptb.train.txt", "arrived ptb.valid.txt", "arrived ptb.test.txt"]);
}

#[test]
fn files_come_out_of_a_zip() {
    let case = Case::new();
    let archive = zip_of(&members(&case).map(|(name, contents)| (name.trim_start_matches("./"), contents)));
    case.server.on("/x.zip", [Reply::ok(archive)]);
    let mirror = case.archive("/x.zip", MirrorKind::Zip { member: TGZ_MEMBER.into() });
    case.fetch(&[mirror]).0.unwrap();
    case.check_complete();
}

#[test]
fn a_cut_archive_goes_on_where_it_stopped() {
    let case = Case::new();
    let archive = tgz(&members(&case));
    let half = archive.len() / 2;
    let reply = Reply::ok(archive);
    case.server.on("/x.tgz", [reply.clone().cut_after(half), reply]);
    let mirror = case.archive("/x.tgz", MirrorKind::Tgz { member: TGZ_MEMBER.into() });
    let (result, _) = case.fetch(std::slice::from_ref(&mirror));
    assert!(result.is_err());
    assert_eq!(case.names(), ["x.tgz.part"]);
    case.fetch(&[mirror]).0.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests()[1], format!("/x.tgz bytes={half}-"));
}

#[test]
fn a_stale_beginning_of_an_archive_is_thrown_away() {
    let case = Case::new();
    case.server.on("/x.tgz", [Reply::ok(tgz(&members(&case)))]);
    fs::write(case.dir.path().join("x.tgz.part"), "another archive").unwrap();
    let mirror = case.archive("/x.tgz", MirrorKind::Tgz { member: TGZ_MEMBER.into() });
    case.fetch(&[mirror]).0.unwrap();
    case.check_complete();
    assert_eq!(case.server.requests(), ["/x.tgz bytes=15-", "/x.tgz"]);
}

#[test]
fn what_came_right_out_of_a_continued_archive_arrives_once() {
    let case = Case::new();
    // The last member is wrong; stored as it is, the archive is the same up to there.
    let archive =
        zip_of(&[("ptb.train.txt", &case.texts[0]), ("ptb.valid.txt", &case.texts[1]), ("ptb.test.txt", b"x")]);
    fs::write(case.dir.path().join("x.zip.part"), &archive[..100]).unwrap();
    case.server.on("/x.zip", [Reply::ok(archive)]);
    let mirror = case.archive("/x.zip", MirrorKind::Zip { member: "ptb.{split}.txt".into() });
    let (result, log) = case.fetch(&[mirror]);
    assert!(case.message(&result.unwrap_err()).starts_with("ptb: no mirror gave ptb.test.txt; tried:"));
    assert_eq!(case.server.requests(), ["/x.zip bytes=100-", "/x.zip"]);
    let arrived: Vec<_> = log.iter().filter(|line| line.starts_with("arrived")).collect();
    assert_eq!(arrived, ["arrived ptb.train.txt", "arrived ptb.valid.txt"]);
}

#[test]
fn bad_archives_are_listed_with_their_reason_and_leave_what_was_right() {
    let case = Case::new();
    let bomb = vec![b'a'; 5_000_000];
    let archive = zip_of(&[("ptb.train.txt", &bomb), ("ptb.valid.txt", &case.texts[1]), ("../ptb.test.txt", b"x")]);
    case.server.on("/x.zip", [Reply::ok(archive)]);
    case.server.on("/junk.zip", [Reply::ok("not a zip at all")]);
    case.server.on("/junk.tgz", [Reply::ok("not a tgz at all")]);
    let member = || "ptb.{split}.txt".into();
    let (result, log) = case.fetch(&[
        case.archive("/x.zip", MirrorKind::Zip { member: member() }),
        case.archive("/junk.zip", MirrorKind::Zip { member: member() }),
        case.archive("/junk.tgz", MirrorKind::Tgz { member: member() }),
    ]);
    assert!(log.contains(&"arrived ptb.valid.txt".to_owned()));
    let message = case.message(&result.unwrap_err());
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[0], "ptb: no mirror gave ptb.train.txt, ptb.test.txt; tried:");
    let longer = sha256_hex(&bomb[..case.texts[0].len() + 1]);
    let expected = sha256_hex(&case.texts[0]);
    assert_eq!(
        lines[1],
        format!(
            "    SERVER/x.zip: ptb.train.txt: not this corpus: its SHA-256 is {longer}, not {expected}; \
             the archive has no ptb.test.txt"
        )
    );
    assert!(lines[2].starts_with("    SERVER/junk.zip: the archive cannot be read: "), "{message}");
    assert!(lines[3].starts_with("    SERVER/junk.tgz: the archive cannot be read: "), "{message}");
    assert_eq!(case.names(), ["ptb.valid.txt"]);
}

#[test]
fn a_file_of_ones_own_under_a_known_name_is_not_touched() {
    let case = Case::new();
    let mirror = case.serve("/a");
    fs::write(case.dir.path().join("ptb.train.txt"), "my own words\n").unwrap();
    let (result, log) = case.fetch(&[mirror]);
    assert_eq!(
        case.message(&result.unwrap_err()),
        format!(
            "DIR/ptb.train.txt: this is not the file of the corpus `ptb`: its SHA-256 is {}, not {}\n  \
             try: move it away and run `bowline data get ptb`, or use `--data DIR` for your own text",
            sha256_hex(b"my own words\n"),
            sha256_hex(&case.texts[0])
        )
    );
    assert_eq!((log.len(), case.server.requests().len()), (0, 0));
    assert_eq!(fs::read(case.dir.path().join("ptb.train.txt")).unwrap(), b"my own words\n");
}

#[test]
fn two_downloads_into_one_folder_do_not_mix() {
    let case = Case::new();
    let mirror = case.serve("/a");
    let lock = fs::File::create(case.dir.path().join(".bowline-download.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(
        case.message(&case.fetch(std::slice::from_ref(&mirror)).0.unwrap_err()),
        "ptb: another download into DIR is under way\n  \
         try: wait for it to end, or name another folder with `--dir DIR`"
    );
    drop(lock);
    case.fetch(&[mirror]).0.unwrap();
    case.check_complete();
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let case = Case::new();
    let file = case.dir.path().join("file");
    fs::write(&file, "").unwrap();
    let error = fetch(&case.corpus, &file.join("sub"), &FetchOptions::default(), &mut |_| {}).unwrap_err();
    assert!(case.message(&error).starts_with("DIR/file/sub: cannot create the folder: "), "{error}");
}

#[test]
fn verify_tells_missing_from_different() {
    let case = Case::new();
    fs::write(case.dir.path().join("ptb.train.txt"), &case.texts[0]).unwrap();
    fs::write(case.dir.path().join("ptb.valid.txt"), "x").unwrap();
    let checks = verify(&case.corpus, case.dir.path()).unwrap();
    let different = FileStatus::Differs { expected: sha256_hex(&case.texts[1]), found: sha256_hex(b"x") };
    let statuses: Vec<_> = checks.into_iter().map(|check| check.status).collect();
    assert_eq!(statuses, [FileStatus::Ok, different, FileStatus::Missing]);
}

#[test]
fn locate_finds_what_fetch_brought_and_says_how_to_get_it() {
    let case = Case::new();
    let environment = Environment {
        platform: Platform::Unix,
        home: None,
        xdg_data_home: Some(case.dir.path().into()),
        local_app_data: None,
    };
    assert_eq!(
        case.message(&locate(&case.corpus, &environment).unwrap_err()),
        "DIR/bowline/ptb: the corpus `ptb` is not there; missing: ptb.train.txt, ptb.valid.txt, ptb.test.txt\n  \
         try: `bowline data get ptb`, or `--data DIR` with a copy of your own"
    );
    let mirror = case.serve("/a");
    let options = FetchOptions { mirrors: Some(vec![mirror]), use_proxy: false, ..FetchOptions::default() };
    let folder = environment.corpus_folder(&case.corpus).unwrap();
    fetch(&case.corpus, &folder, &options, &mut |_| {}).unwrap();
    assert_eq!(locate(&case.corpus, &environment).unwrap(), folder);
    fs::write(folder.join("ptb.test.txt"), "changed").unwrap();
    let message = case.message(&locate(&case.corpus, &environment).unwrap_err());
    assert!(message.starts_with("DIR/bowline/ptb/ptb.test.txt: this is not the file of the corpus `ptb`"), "{message}");
}

#[test]
fn the_halves_of_wikitext_2_have_its_files() {
    assert_eq!(half("wikitext-2-half1"), Some(("wikitext-2", 0)));
    assert_eq!(half("wikitext-2-half2"), Some(("wikitext-2", 1)));
    for name in ["wikitext-2", "wikitext-2-half3", "ptb-half1", "wikitext-2-half"] {
        assert_eq!(half(name), None, "{name}");
    }
    assert_eq!(by_name("wikitext-2-half2").unwrap().name, "wikitext-2");
    assert!(by_name("ptb-half1").is_none());
}

#[test]
fn the_catalog_is_consistent() {
    for corpus in &CATALOG {
        assert_eq!(by_name(corpus.name).unwrap().title, corpus.title);
        let hosts: std::collections::HashSet<_> =
            corpus.mirrors.iter().map(|mirror| mirror.url.split('/').nth(2).unwrap()).collect();
        assert!(hosts.len() >= 2, "{}: mirrors on different hosts", corpus.name);
        for (file, split) in corpus.files.iter().zip(SplitName::ALL) {
            assert_eq!((file.split, file.sha256.len()), (split, 64));
            let own = corpus.mirror_at("http://h/");
            assert_eq!(catalog::fill(&own.url, split), format!("http://h/{}", file.name));
        }
        for mirror in corpus.mirrors {
            let pattern = match &mirror.kind {
                MirrorKind::Files => &mirror.url,
                MirrorKind::Tgz { member } | MirrorKind::Zip { member } => member,
            };
            assert!(pattern.contains("{split}"), "{}", mirror.url);
        }
    }
    assert!(by_name("wikitext-103").is_none());
}

#[test]
fn the_catalog_knows_the_real_corpora() {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    for corpus in &CATALOG {
        let dir = data.join(corpus.name);
        if !dir.is_dir() {
            // Past the test harness, which would keep it to itself.
            let _ = writeln!(std::io::stderr(), "skipped: the corpus {} is not there", dir.display());
            continue;
        }
        for (file, check) in corpus.files.iter().zip(verify(corpus, &dir).unwrap()) {
            assert_eq!(check.status, FileStatus::Ok, "{}", check.path.display());
            assert_eq!(fs::metadata(&check.path).unwrap().len(), file.bytes);
        }
    }
}
