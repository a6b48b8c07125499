//! Taking members out of an archive.
//!
//! The archive comes from a stranger: no name in it becomes the name of a file, and no more of a member is unpacked
//! than the file in the catalog has bytes (and one, so that a longer one is told apart).

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::GzDecoder;

/// A tar archive is read from the start until all members are found, but no further than this.
const LARGEST_UNPACKED: u64 = 1 << 30;

/// A member to take out.
pub(super) struct Wanted {
    /// Its path in the archive.
    pub member: String,
    /// The size that it should have.
    pub bytes: u64,
}

/// The contents of the members, in order; `None` for one that is not in the archive.
pub(super) fn from_tgz(archive: &Path, wanted: &[Wanted]) -> io::Result<Vec<Option<Vec<u8>>>> {
    let unzipped = GzDecoder::new(BufReader::new(File::open(archive)?)).take(LARGEST_UNPACKED);
    let mut found = vec![None; wanted.len()];
    for entry in tar::Archive::new(unzipped).entries()? {
        let mut entry = entry?;
        let path = entry.path_bytes();
        let path = path.strip_prefix(b"./").unwrap_or(&path);
        let Some(place) = wanted.iter().position(|wanted| wanted.member.as_bytes() == path) else { continue };
        found[place] = Some(contents(&mut entry, &wanted[place])?);
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(found)
}

/// The contents of the members, in order; `None` for one that is not in the archive.
pub(super) fn from_zip(archive: &Path, wanted: &[Wanted]) -> io::Result<Vec<Option<Vec<u8>>>> {
    let mut archive = zip::ZipArchive::new(BufReader::new(File::open(archive)?))?;
    wanted
        .iter()
        .map(|wanted| match archive.index_for_name(&wanted.member) {
            Some(index) => contents(&mut archive.by_index(index)?, wanted).map(Some),
            None => Ok(None),
        })
        .collect()
}

fn contents(member: &mut impl Read, wanted: &Wanted) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    member.take(wanted.bytes + 1).read_to_end(&mut contents)?;
    Ok(contents)
}
