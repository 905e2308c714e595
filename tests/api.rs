//! The interface of the library is the one that `docs/api.txt` keeps: what can be named, with signatures, public fields,
//! variants, and what is implemented. A change of it is a change of that file, which is seen in review:
//! `UPDATE_EXPECT=1 cargo test --test whole api` writes it.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails where it stands")]

#[path = "api/baseline.rs"]
mod baseline;
#[path = "api/documents.rs"]
mod documents;
#[path = "api/errors.rs"]
mod errors;
#[path = "api/interface.rs"]
mod interface;
#[path = "api/kinds.rs"]
mod kinds;
#[path = "api/lines.rs"]
mod lines;
#[path = "api/names.rs"]
mod names;
#[path = "api/print.rs"]
mod print;
#[path = "api/tree.rs"]
mod tree;

use std::path::Path;

use expect_test::{expect, expect_file};
use syn::{Item, parse_quote};

use interface::Interface;
use tree::Sources;

#[test]
fn the_interface_is_the_one_that_is_kept() {
    let sources = Sources::read(root());
    let text = Interface::of(&sources).text();
    assert!(text.lines().count() > 2_000, "only {} lines were found", text.lines().count());
    expect_file!["../docs/api.txt"].assert_eq(&text);
}

/// What the file has of an item is all that another item would be incompatible by, and nothing else.
#[test]
fn signatures_fields_and_variants_are_kept_and_bodies_and_texts_are_not() {
    let options: Item = parse_quote! {
        /// Options.
        #[derive(Debug, Clone)]
        #[serde(default)]
        pub struct Options {
            /// How many.
            pub count: u32,
            hidden: Vec<u8>,
        }
    };
    expect![[r#"
        #[derive(Clone, Debug)]
        pub struct Options {
            pub count: u32,
            private: _,
        }
    "#]]
    .assert_eq(&print::interface(&options));
    let port: Item = parse_quote! {
        pub trait Port: Send {
            /// Must be there.
            fn ask(&self, text: &str) -> Result<u32, Error>;
            /// Has a default.
            fn limit(&self) -> u32 { 3 }
        }
    };
    expect![[r#"
        pub trait Port: Send {
            fn ask(&self, text: &str) -> Result<u32, Error>;
            fn limit(&self) -> u32 {}
        }
    "#]]
    .assert_eq(&print::interface(&port));
    let block: syn::ItemImpl = parse_quote! {
        impl Options {
            /// Makes them.
            pub fn new(count: u32) -> Self { Self { count, hidden: Vec::new() } }
            fn secret(&self) {}
        }
    };
    expect![[r#"
        impl Options {
            pub fn new(count: u32) -> Self {}
        }
    "#]]
    .assert_eq(&print::implemented(&block).unwrap());
}

/// No method of a trait that a program implements comes and goes with a feature.
#[test]
fn no_method_of_a_trait_depends_on_a_feature() {
    let sources = Sources::read(root());
    let interface = Interface::of(&sources);
    let ports = interface.ports();
    assert!(ports.len() >= 18, "only {} ports were found", ports.len());
    for (path, port) in ports {
        let methods: Vec<_> = port.items.iter().filter_map(tree::feature_of_trait_item).collect();
        assert!(methods.is_empty(), "{path}: {methods:?}");
    }
}

/// A program can name each type that a public signature, field or variant has.
#[test]
fn each_type_of_a_signature_has_a_public_path() {
    let sources = Sources::read(root());
    let unnamed = Interface::of(&sources).unnamed();
    assert!(unnamed.is_empty(), "no path of the library leads to:\n{}", unnamed.join("\n"));
}

/// One name means one thing, also in different modules.
#[test]
fn no_two_types_traits_or_constants_have_one_name() {
    let sources = Sources::read(root());
    let interface = Interface::of(&sources);
    let named = interface.named();
    assert!(named.len() > 300, "only {} names were found", named.len());
    let twice: Vec<_> = named.into_values().filter(|paths| paths.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
