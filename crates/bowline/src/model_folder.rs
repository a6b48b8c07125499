//! A trained model as a folder.
