//! The ids of a training text: in memory, or in a file of the run, read by pieces.
//!
//! The file begins with a *head* that says which text it was made from and with which vocabulary, both by their SHA-256,
//! and how many ids follow, four bytes each, the lowest first. It can always be made again from the text, and is if it is
//! missing or another one's.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::digest::sha256_hex;
use super::text::Text;
use crate::storage::{atomic, files};
use crate::vocabulary::Vocabulary;
use crate::{Error, Result};

const MAGIC: &[u8; 16] = b"bowline ids 1\n\0\0";
/// The magic, two hashes of 64 digits, a number of 8 bytes.
const HEAD: usize = 16 + 64 + 64 + 8;
/// Ids that are read at a time.
const AHEAD: usize = 1 << 14;
const REMOVE: &str = "remove the file and resume the run: it is made again from the text";

/// The tokens of a training text, in order.
#[derive(Clone, Debug)]
pub enum Ids {
    /// All of them in memory.
    Memory(Vec<u32>),
    /// In a file.
    File(IdFile),
}

/// Ids in a file, or what they are to be made from.
#[derive(Clone, Debug)]
pub struct IdFile {
    text: Arc<Text>,
    tokenize: bool,
    /// Tokens of the whole text.
    total: usize,
    /// The piece of it that this is.
    piece: Range<usize>,
    opened: Option<Opened>,
}

#[derive(Clone, Debug)]
struct Opened {
    path: PathBuf,
    file: Arc<Mutex<File>>,
    vocab: usize,
}

/// Ids that were read ahead, of one of the places where a file is read.
#[derive(Clone, Debug, Default)]
pub struct Page {
    first: usize,
    ids: Vec<u32>,
}

impl Ids {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Ids::Memory(ids) => ids.len(),
            Ids::File(file) => file.piece.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps this piece alone.
    pub fn cut(&mut self, piece: Range<usize>) {
        match self {
            Ids::Memory(ids) => {
                ids.truncate(piece.end);
                ids.drain(..piece.start.min(ids.len()));
            }
            Ids::File(file) => file.piece = file.piece.start + piece.start..file.piece.start + piece.end,
        }
    }

    /// The ids at some places. From a file more are read, and kept in the page for the next time.
    pub fn read<'a>(&'a self, at: Range<usize>, page: &'a mut Page) -> Result<&'a [u32]> {
        match self {
            Ids::Memory(ids) => Ok(&ids[at]),
            Ids::File(file) => file.read(at, page),
        }
    }

    /// All of them, in memory; of a file that was not made yet with the words of this vocabulary.
    pub(super) fn whole(&self, vocabulary: &Vocabulary) -> Result<Cow<'_, [u32]>> {
        match self {
            Ids::Memory(ids) => Ok(Cow::Borrowed(ids)),
            Ids::File(file) if file.opened.is_some() => {
                let mut page = Page::default();
                file.read(0..file.piece.len(), &mut page)?;
                page.ids.truncate(file.piece.len());
                Ok(Cow::Owned(page.ids))
            }
            Ids::File(file) => {
                let mut ids = Vec::with_capacity(file.piece.len());
                let mut at = 0;
                file.encode(vocabulary, |id| {
                    if file.piece.contains(&at) {
                        ids.push(id);
                    }
                    at += 1;
                    Ok(())
                })
                .map_err(Error::io(&file.text.path, "read"))?;
                Ok(Cow::Owned(ids))
            }
        }
    }
}

impl From<Vec<u32>> for Ids {
    fn from(ids: Vec<u32>) -> Ids {
        Ids::Memory(ids)
    }
}

/// The same ids; where both are in files, the same pieces of the same text.
impl PartialEq for Ids {
    fn eq(&self, other: &Ids) -> bool {
        match (self, other) {
            (Ids::Memory(a), Ids::Memory(b)) => a == b,
            (Ids::File(a), Ids::File(b)) => a.text.sha256 == b.text.sha256 && a.piece == b.piece,
            _ => false,
        }
    }
}

impl Eq for Ids {}

impl IdFile {
    /// The ids of a text of `total` tokens, still to be written.
    pub(super) fn of(text: Text, tokenize: bool, total: usize) -> IdFile {
        IdFile { text: Arc::new(text), tokenize, total, piece: 0..total, opened: None }
    }

    /// Opens the file at `path`, and makes it first, unless it is there already.
    pub(super) fn keep(&mut self, path: &Path, vocabulary: &Vocabulary) -> Result<()> {
        let mut head = Vec::with_capacity(HEAD);
        head.extend(MAGIC);
        head.extend(self.text.sha256.as_bytes());
        head.extend(sha256_hex(vocabulary.to_text().as_bytes()).as_bytes());
        head.extend((self.total as u64).to_le_bytes());
        if !begins_with(path, &head, self.total).map_err(Error::io(path, "read"))? {
            atomic::write(path, |out| {
                out.write_all(&head)?;
                self.encode(vocabulary, |id| out.write_all(&id.to_le_bytes()))
            })?;
        }
        let file = files::open(path).map_err(Error::io(path, "read"))?;
        self.opened = Some(Opened { path: path.into(), file: Arc::new(Mutex::new(file)), vocab: vocabulary.len() });
        Ok(())
    }

    /// Calls `each` with every id of the whole text.
    fn encode(&self, vocabulary: &Vocabulary, mut each: impl FnMut(u32) -> io::Result<()>) -> io::Result<()> {
        let unk = vocabulary.unk();
        let (mut count, mut result) = (0, Ok(()));
        let walked = self.text.for_each_word(self.tokenize, |_, word| {
            count += 1;
            if result.is_ok() {
                result = match vocabulary.id(word).or(unk) {
                    Some(id) => each(id),
                    None => Err(changed(&self.text.path)),
                };
            }
        });
        result?;
        walked.map_err(|error| io::Error::other(error.to_string()))?;
        if count == self.total { Ok(()) } else { Err(changed(&self.text.path)) }
    }

    fn read<'a>(&self, at: Range<usize>, page: &'a mut Page) -> Result<&'a [u32]> {
        let known = page.first..page.first + page.ids.len();
        if at.start < known.start || at.end > known.end {
            self.load(at.start, at.len().max(AHEAD).min(self.piece.len() - at.start), page)?;
        }
        Ok(&page.ids[at.start - page.first..][..at.len()])
    }

    fn load(&self, first: usize, count: usize, page: &mut Page) -> Result<()> {
        let Some(opened) = &self.opened else {
            return Err(Error::corpus(&self.text.path, "its ids are not in a file yet", "`data.ids=memory`"));
        };
        let mut bytes = vec![0; 4 * count];
        let mut file = opened.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start((HEAD + 4 * (self.piece.start + first)) as u64))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(Error::io(&opened.path, "read"))?;
        page.first = first;
        page.ids.clear();
        page.ids.extend(bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])));
        match page.ids.iter().copied().find(|&id| id as usize >= opened.vocab) {
            None => Ok(()),
            Some(id) => {
                page.ids.clear();
                let problem = format!("the file is damaged: {id} is no id of {} words", opened.vocab);
                Err(Error::run(&opened.path, problem, REMOVE))
            }
        }
    }
}

/// Whether there is a file with this head and so many ids after it.
fn begins_with(path: &Path, head: &[u8], ids: usize) -> io::Result<bool> {
    let mut file = match files::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        file => file?,
    };
    let mut found = vec![0; head.len()];
    let as_long = file.metadata()?.len() == (head.len() + 4 * ids) as u64;
    Ok(as_long && file.read_exact(&mut found).is_ok() && found == head)
}

fn changed(path: &Path) -> io::Error {
    io::Error::other(format!("{} has changed while it was read", path.display()))
}
