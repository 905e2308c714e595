//! The types that an item names to those who use it.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Fields, ImplItem, Item, Visibility};

use crate::api::print;

/// Those of an item: of public fields, of variants, of signatures.
pub(crate) fn of_item(item: &Item) -> Vec<Vec<String>> {
    let tokens: TokenStream = match item {
        Item::Enum(item) => item.variants.iter().flat_map(|variant| of_fields(&variant.fields, true)).collect(),
        Item::Struct(item) => of_fields(&item.fields, false),
        Item::Fn(item) => item.sig.to_token_stream(),
        Item::Const(item) => item.ty.to_token_stream(),
        Item::Static(item) => item.ty.to_token_stream(),
        Item::Type(item) => item.ty.to_token_stream(),
        Item::Trait(item) => {
            let methods = item.items.iter().filter_map(|item| match item {
                syn::TraitItem::Fn(function) if !print::is_hidden(&function.attrs) => Some(&function.sig),
                _hidden_or_another => None,
            });
            item.supertraits.to_token_stream().into_iter().chain(methods.flat_map(|of| of.to_token_stream())).collect()
        }
        _made_by_a_macro => return Vec::new(),
    };
    let mut found = Vec::new();
    paths(tokens, &mut found);
    found
}

/// Those of the public functions of an `impl`. One of a trait names nothing by itself.
pub(crate) fn of_block(block: &syn::ItemImpl) -> Vec<Vec<String>> {
    if block.trait_.is_some() {
        return Vec::new();
    }
    let signatures = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function)
            if matches!(function.vis, Visibility::Public(_)) && !print::is_hidden(&function.attrs) =>
        {
            Some(function.sig.to_token_stream())
        }
        _private_or_hidden => None,
    });
    let mut found = Vec::new();
    paths(signatures.collect(), &mut found);
    found
}

fn of_fields(fields: &Fields, all: bool) -> TokenStream {
    let shown = fields
        .iter()
        .filter(|field| (all || matches!(field.vis, Visibility::Public(_))) && !print::is_hidden(&field.attrs));
    shown.flat_map(|field| field.ty.to_token_stream()).collect()
}

/// The paths in some tokens whose last name is that of a type.
fn paths(tokens: TokenStream, found: &mut Vec<Vec<String>>) {
    let (mut path, mut colons): (Vec<String>, usize) = (Vec::new(), 0);
    for token in tokens {
        let is_colon = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ':');
        if is_colon {
            colons += 1;
            continue;
        }
        let goes_on = colons == 2 && matches!(token, TokenTree::Ident(_));
        colons = 0;
        if !goes_on {
            end(&mut path, found);
        }
        match token {
            TokenTree::Ident(name) => path.push(name.to_string()),
            TokenTree::Group(group) => paths(group.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    end(&mut path, found);
}

fn end(path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let path = std::mem::take(path);
    if path.last().is_some_and(|name| name.starts_with(char::is_uppercase)) {
        found.push(path);
    }
}

#[test]
fn paths_are_found_in_fields_variants_and_signatures_and_hidden_ones_are_left_out() {
    let of = |item: Item| of_item(&item).iter().map(|path| path.join("::")).collect::<Vec<_>>();
    let options: Item = syn::parse_quote! {
        pub struct Options<T> { pub first: Option<a::First>, pub second: T, #[doc(hidden)] pub third: Third, own: Own }
    };
    assert_eq!(of(options), ["Option", "a::First", "T"]);
    let choice: Item = syn::parse_quote! { pub enum Choice { One(b::One), Two { two: Two }, Three } };
    assert_eq!(of(choice), ["b::One", "Two"]);
    let port: Item = syn::parse_quote! {
        pub trait Port: Send { fn ask(&self, text: &str) -> Result<Answer, c::Error>; #[doc(hidden)] fn own(&self) -> Own; }
    };
    assert_eq!(of(port), ["Send", "Result", "Answer", "c::Error"]);
}
