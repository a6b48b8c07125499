//! The folder of the user's own in which downloaded corpora live.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use super::PublicCorpus;
use crate::{Error, Result};

/// Which convention for the folders of a user applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Linux and the other Unixes: `$XDG_DATA_HOME`, else `~/.local/share`.
    Unix,
    /// macOS: `$XDG_DATA_HOME` where it is set, else `~/Library/Application Support`.
    MacOs,
    /// Windows: `%LOCALAPPDATA%`.
    Windows,
}

/// All that decides where the folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The convention.
    pub platform: Platform,
    /// `HOME`.
    pub home: Option<OsString>,
    /// `XDG_DATA_HOME`.
    pub xdg_data_home: Option<OsString>,
    /// `LOCALAPPDATA`.
    pub local_app_data: Option<OsString>,
}

impl Environment {
    /// That of this process.
    pub fn current() -> Environment {
        let platform = match env::consts::OS {
            "windows" => Platform::Windows,
            "macos" => Platform::MacOs,
            _ => Platform::Unix,
        };
        Environment {
            platform,
            home: env::var_os("HOME"),
            xdg_data_home: env::var_os("XDG_DATA_HOME"),
            local_app_data: env::var_os("LOCALAPPDATA"),
        }
    }

    /// The folder that holds the folders of the corpora. A relative path in a variable is ignored, as the XDG
    /// convention asks: it would mean another folder in each working directory.
    pub fn data_folder(&self) -> Result<PathBuf> {
        let absolute = |value: &Option<OsString>| value.as_ref().map(PathBuf::from).filter(|path| path.is_absolute());
        let (base, variables) = match self.platform {
            Platform::Windows => (absolute(&self.local_app_data), "LOCALAPPDATA holds no absolute path"),
            platform => {
                let below_home =
                    if platform == Platform::MacOs { "Library/Application Support" } else { ".local/share" };
                (
                    absolute(&self.xdg_data_home).or_else(|| absolute(&self.home).map(|home| home.join(below_home))),
                    "neither XDG_DATA_HOME nor HOME holds an absolute path",
                )
            }
        };
        base.map(|base| base.join("bowline")).ok_or_else(|| {
            Error::download(
                "the data folder",
                format!("no place for it: {variables}"),
                "name a folder with `--dir DIR`, and use it with `--data DIR`",
            )
        })
    }

    /// The folder of one corpus.
    pub fn corpus_folder(&self, corpus: &PublicCorpus) -> Result<PathBuf> {
        Ok(self.data_folder()?.join(corpus.name))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::path::Path;

    fn folder(platform: Platform, home: &str, xdg: &str, local: &str) -> std::result::Result<String, String> {
        let value = |text: &str| if text == "-" { None } else { Some(text.into()) };
        let environment =
            Environment { platform, home: value(home), xdg_data_home: value(xdg), local_app_data: value(local) };
        environment.data_folder().map(|path| path.display().to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn each_platform_has_its_place() {
        let check = |platform, home, xdg, local, expected: &str| {
            assert_eq!(folder(platform, home, xdg, local).unwrap(), expected);
        };
        check(Platform::Unix, "/h/a", "-", "-", "/h/a/.local/share/bowline");
        check(Platform::Unix, "/h/a", "/data", "-", "/data/bowline");
        check(Platform::Unix, "/h/a", "", "-", "/h/a/.local/share/bowline");
        check(Platform::Unix, "/h/a", "relative", "-", "/h/a/.local/share/bowline");
        check(Platform::MacOs, "/Users/ann", "-", "-", "/Users/ann/Library/Application Support/bowline");
        check(Platform::Windows, "/h/a", "/data", "/local", "/local/bowline");
    }

    #[test]
    fn without_a_place_the_error_says_what_to_do() {
        let expected = |variables: &str| {
            format!(
                "the data folder: no place for it: {variables}\n  \
                 try: name a folder with `--dir DIR`, and use it with `--data DIR`"
            )
        };
        let unix = folder(Platform::Unix, "-", "x", "/local").unwrap_err();
        assert_eq!(unix, expected("neither XDG_DATA_HOME nor HOME holds an absolute path"));
        let windows = folder(Platform::Windows, "/h/a", "/data", "-").unwrap_err();
        assert_eq!(windows, expected("LOCALAPPDATA holds no absolute path"));
    }

    #[test]
    fn each_corpus_has_its_own_folder() {
        let environment = Environment { xdg_data_home: Some("/data".into()), ..Environment::current() };
        let environment = Environment { platform: Platform::Unix, ..environment };
        let folders: Vec<_> =
            super::super::CATALOG.iter().map(|corpus| environment.corpus_folder(corpus).unwrap()).collect();
        assert_eq!(folders, [Path::new("/data/bowline/ptb"), Path::new("/data/bowline/wikitext-2")]);
    }
}
