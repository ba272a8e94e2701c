//! Hash indexes over exact names, suffixes and IP literals.
