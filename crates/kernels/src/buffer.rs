//! Memory for numbers, laid out for the kernels: it begins at a cache line, and large buffers ask for large pages.
//!
//! A register that is loaded from the seam of two cache lines costs two loads. And a product walks over many rows at once,
//! each on a page of its own: with pages of 4 kB their addresses no longer fit the CPU's table of pages (its TLB).

use std::ops::{Deref, DerefMut, Range};

/// Bytes of a cache line.
const LINE: usize = 64;
/// Bytes of a large page.
const LARGE_PAGE: usize = 2 << 20;
/// From so many bytes on, large pages are asked for. Below, what is lost to alignment would outweigh them.
const LARGE: usize = 2 * LARGE_PAGE;

/// A growable row of f32 that begins at a cache line, or at a large page if it is large.
pub struct Buffer {
    /// The numbers are somewhere inside, so that they can begin at a multiple of the alignment.
    memory: Vec<f32>,
    range: Range<usize>,
}

impl Buffer {
    /// One without room.
    pub const fn new() -> Buffer {
        Buffer { memory: Vec::new(), range: 0..0 }
    }

    /// `len` zeros. Like `vec![0.0; len]`, memory is only taken for what is written.
    pub fn zeros(len: usize) -> Buffer {
        if len == 0 {
            return Buffer::new();
        }
        let alignment = if size_of::<f32>() * len >= LARGE { LARGE_PAGE } else { LINE };
        let memory = vec![0.0f32; len + alignment / size_of::<f32>()];
        let past = memory.as_ptr().addr() % alignment;
        let start = if past == 0 { 0 } else { (alignment - past) / size_of::<f32>() };
        let mut buffer = Buffer { memory, range: start..start + len };
        if alignment == LARGE_PAGE {
            ask_for_large_pages(&mut buffer);
        }
        buffer
    }

    /// Changes the number of elements. Allocates only when there have never been so many; what was there is then lost.
    pub fn resize(&mut self, len: usize) {
        let start = self.range.start;
        if start + len <= self.memory.len() {
            self.range = start..start + len;
        } else {
            *self = Buffer::new(); // the old one goes before the new one comes
            *self = Buffer::zeros(len);
        }
    }

    /// Makes sure of at least `len` elements, as [`Buffer::resize`] does.
    pub fn grow(&mut self, len: usize) {
        if self.len() < len {
            self.resize(len);
        }
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        size_of::<f32>() * self.memory.capacity()
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::new()
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.memory[self.range.clone()]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[self.range.clone()]
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        let mut copy = Buffer::zeros(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.deref().fmt(f)
    }
}

/// Tells Linux that the memory is worth large pages (`transparent_hugepage` is `madvise` on most systems). If it does not
/// follow, all works as well, only slower; so its answer does not matter.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn ask_for_large_pages(memory: &mut [f32]) {
    const MADV_HUGEPAGE: i32 = 14;
    unsafe extern "C" {
        fn madvise(start: *mut std::ffi::c_void, bytes: usize, advice: i32) -> i32;
    }
    let whole_pages = size_of_val(memory) / LARGE_PAGE * LARGE_PAGE;
    // SAFETY: the range is inside the slice and begins at a page; the advice changes nothing of what is in it.
    unsafe { madvise(memory.as_mut_ptr().cast(), whole_pages, MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn ask_for_large_pages(_memory: &mut [f32]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_at_a_cache_line_or_a_large_page_and_is_zero() {
        for (len, alignment) in
            [(1, LINE), (17, LINE), (100_000, LINE), (LARGE / 4, LARGE_PAGE), (3_000_001, LARGE_PAGE)]
        {
            let mut buffer = Buffer::zeros(len);
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % alignment), (len, 0));
            assert!(buffer.iter().all(|&x| x == 0.0) && buffer.bytes() >= 4 * len);
            buffer.fill(2.0);
            assert_eq!(buffer.clone()[..], buffer[..]);
            assert_eq!(buffer.clone().as_ptr().addr() % alignment, 0);
        }
        assert!(Buffer::zeros(0).is_empty() && Buffer::new().is_empty());
    }

    #[test]
    fn it_moves_only_when_it_was_never_so_large() {
        let mut buffer = Buffer::zeros(1000);
        let place = buffer.as_ptr();
        buffer.resize(10);
        buffer.grow(5);
        assert_eq!(buffer.len(), 10);
        buffer.resize(1000);
        assert_eq!((buffer.as_ptr(), buffer.len()), (place, 1000));
        buffer.grow(2000);
        assert_eq!((buffer.len(), buffer.as_ptr().addr() % LINE), (2000, 0));
    }
}
