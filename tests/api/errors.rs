//! Which errors tell what they come from, by `source()`, and which are a text alone: as `docs/api.md` says.

use std::collections::BTreeSet;
use std::fs;

use quote::ToTokens;
use syn::{Attribute, Fields, Item};

use crate::api::interface::Interface;
use crate::api::tree::Sources;
use crate::api::{documents, root};

/// The errors of an interface and their variants, by their names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Errors {
    with_a_source: BTreeSet<String>,
    /// Those that have a text, and no source.
    texts: BTreeSet<String>,
}

#[test]
fn each_error_that_has_a_source_and_each_that_is_a_text_alone_is_named_as_that() {
    let sources = Sources::read(root());
    let errors = Errors::of(&Interface::of(&sources));
    assert!(errors.with_a_source.len() > 15 && errors.texts.len() > 20, "only these were found: {errors:?}");
    let page = fs::read_to_string(root().join("docs/api.md")).unwrap();
    let row =
        |begins: &str| documents::names_in(page.lines().find(|line| line.starts_with(begins)).unwrap_or_default());
    let named = Errors { with_a_source: row("| has a `source()` |"), texts: row("| is a text, or data with one |") };
    assert_eq!(named, errors);
}

impl Errors {
    fn of(interface: &Interface<'_>) -> Self {
        let mut errors = Self::default();
        for (path, item) in interface.items() {
            let derives = item.to_token_stream().to_string().contains("thiserror :: Error");
            let by_hand = interface.implementation(&path, "Error");
            if derives || by_hand.is_some() {
                let is_told = by_hand.is_some_and(|block| block.to_token_stream().to_string().contains("fn source"));
                errors.add(item, is_told);
            }
        }
        errors
    }

    fn add(&mut self, item: &Item, is_told: bool) {
        match item {
            Item::Struct(item) => {
                let name = item.ident.to_string();
                self.add_one(name, &item.fields, is_told || has_source(&item.attrs, &item.fields));
            }
            Item::Enum(item) => {
                for variant in &item.variants {
                    let name = format!("{}::{}", item.ident, variant.ident);
                    self.add_one(name, &variant.fields, is_told || has_source(&variant.attrs, &variant.fields));
                }
            }
            _no_type => {}
        }
    }

    fn add_one(&mut self, name: String, fields: &Fields, has_source: bool) {
        if has_source {
            self.with_a_source.insert(name);
        } else if fields.iter().any(|field| field.ty.to_token_stream().to_string() == "String") {
            self.texts.insert(name);
        }
    }
}

/// Whether `thiserror` gives one.
fn has_source(attributes: &[Attribute], fields: &Fields) -> bool {
    let is_transparent = attributes.iter().any(|attribute| {
        attribute.path().is_ident("error") && attribute.meta.to_token_stream().to_string().contains("transparent")
    });
    let is_source = |field: &syn::Field| {
        field.ident.as_ref().is_some_and(|name| name == "source")
            || field.attrs.iter().any(|of| of.path().is_ident("source") || of.path().is_ident("from"))
    };
    is_transparent || fields.iter().any(is_source)
}

#[test]
fn a_source_is_found_by_its_attribute_its_name_and_by_hand() {
    let mut errors = Errors::default();
    let some: Item = syn::parse_quote! {
        pub enum Some {
            #[error(transparent)]
            Whole(Inner),
            #[error("{0}")]
            Below(#[source] Inner),
            #[error("{0}")]
            From(#[from] Inner),
            Named { source: Inner },
            Text(String),
            Data { bytes: usize },
        }
    };
    errors.add(&some, false);
    errors.add(&syn::parse_quote! { pub struct ByHand { why: String, cause: Cause } }, true);
    errors.add(&syn::parse_quote! { pub struct Bare { why: String } }, false);
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let sources = named(&["ByHand", "Some::Below", "Some::From", "Some::Named", "Some::Whole"]);
    assert_eq!(errors, Errors { with_a_source: sources, texts: named(&["Bare", "Some::Text"]) });
}
