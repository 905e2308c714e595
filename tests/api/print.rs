//! What of an item is its interface: signatures, public fields, variants; no bodies, no texts.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Attribute, Block, Expr, Fields, File, ImplItem, Item, Meta, Token, TraitItem, Type, Visibility};

/// The text of an item.
pub(crate) fn interface(item: &Item) -> String {
    let mut item = item.clone();
    match &mut item {
        Item::Const(item) => {
            clean(&mut item.attrs);
            *item.expr = hidden();
        }
        Item::Static(item) => {
            clean(&mut item.attrs);
            *item.expr = hidden();
        }
        Item::Enum(item) => {
            clean(&mut item.attrs);
            let shown = std::mem::take(&mut item.variants).into_iter().filter(|variant| !is_hidden(&variant.attrs));
            item.variants = shown.collect();
            for variant in &mut item.variants {
                clean(&mut variant.attrs);
                variant.fields.iter_mut().for_each(|field| clean(&mut field.attrs));
            }
        }
        Item::Struct(item) => {
            clean(&mut item.attrs);
            hide(&mut item.fields);
        }
        Item::Fn(item) => {
            clean(&mut item.attrs);
            *item.block = nothing();
        }
        Item::Trait(item) => {
            clean(&mut item.attrs);
            item.items.retain(|item| !matches!(item, TraitItem::Fn(function) if is_hidden(&function.attrs)));
            item.items.iter_mut().for_each(clean_of_trait);
        }
        Item::Type(item) => clean(&mut item.attrs),
        Item::Macro(made) => return macro_made(made),
        _others => {}
    }
    printed(item)
}

/// The public functions and constants of an `impl` without a trait, and of one with a trait only that it is there.
pub(crate) fn implemented(block: &syn::ItemImpl) -> Option<String> {
    let mut block = block.clone();
    clean(&mut block.attrs);
    if block.trait_.is_some() {
        block.items.clear();
        return Some(printed(Item::Impl(block)));
    }
    block.items.retain(|item| match item {
        ImplItem::Fn(function) => matches!(function.vis, Visibility::Public(_)) && !is_hidden(&function.attrs),
        ImplItem::Const(constant) => matches!(constant.vis, Visibility::Public(_)),
        _others => false,
    });
    for item in &mut block.items {
        match item {
            ImplItem::Fn(function) => {
                clean(&mut function.attrs);
                function.block = nothing();
            }
            ImplItem::Const(constant) => {
                clean(&mut constant.attrs);
                constant.expr = hidden();
            }
            _others => {}
        }
    }
    (!block.items.is_empty()).then(|| printed(Item::Impl(block)))
}

/// Whether documentation leaves it out: then it is for the packages of the library, and no program relies on it.
pub(crate) fn is_hidden(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && matches!(&attribute.meta, Meta::List(list) if list.tokens.to_string() == "hidden")
    })
}

fn clean_of_trait(item: &mut TraitItem) {
    match item {
        TraitItem::Fn(function) => {
            clean(&mut function.attrs);
            if function.default.is_some() {
                function.default = Some(nothing());
            }
        }
        TraitItem::Const(constant) => clean(&mut constant.attrs),
        TraitItem::Type(of) => clean(&mut of.attrs),
        _others => {}
    }
}

/// Private fields become one that says so.
fn hide(fields: &mut Fields) {
    let is_public = |field: &syn::Field| matches!(field.vis, Visibility::Public(_));
    let has_private = !fields.iter().all(is_public);
    fields.iter_mut().for_each(|field| clean(&mut field.attrs));
    match fields {
        Fields::Named(named) => {
            let mut kept: Punctuated<_, Token![,]> =
                named.named.iter().filter(|field| is_public(field)).cloned().collect();
            if has_private {
                let hidden: syn::FieldsNamed = syn::parse_quote!({ private: _ });
                kept.extend(hidden.named);
            }
            named.named = kept;
        }
        Fields::Unnamed(unnamed) => {
            for field in unnamed.unnamed.iter_mut().filter(|field| !is_public(field)) {
                field.vis = Visibility::Inherited;
                field.ty = Type::Infer(syn::parse_quote!(_));
            }
        }
        Fields::Unit => {}
    }
}

/// Leaves what a program may notice: features, `non_exhaustive`, and what is derived, in the order of the alphabet.
fn clean(attributes: &mut Vec<Attribute>) {
    attributes.retain(|attribute| {
        let path = attribute.path();
        let is_of_feature = path.is_ident("cfg") && attribute.to_token_stream().to_string().contains("feature");
        is_of_feature || path.is_ident("derive") || path.is_ident("non_exhaustive")
    });
    for attribute in attributes.iter_mut().filter(|attribute| attribute.path().is_ident("derive")) {
        let Meta::List(list) = &mut attribute.meta else { continue };
        let Ok(paths) = list.parse_args_with(Punctuated::<syn::Path, Token![,]>::parse_terminated) else { continue };
        let mut names: Vec<_> = paths.into_iter().collect();
        names.sort_by_key(|path| path.to_token_stream().to_string());
        let names: Punctuated<_, Token![,]> = names.into_iter().collect();
        list.tokens = names.to_token_stream();
    }
}

/// An item that a macro makes, by the names of both; what the macro makes is in the interface as well.
fn macro_made(made: &syn::ItemMacro) -> String {
    let last = made.mac.tokens.clone().into_iter().last();
    let (of, name) = (made.mac.path.to_token_stream(), last.map(|name| name.to_string()).unwrap_or_default());
    format!("{of}! {{ {name} }}\n")
}

/// What a macro makes, without its texts.
pub(crate) fn definition(made: &syn::ItemMacro) -> String {
    let tokens = without_texts(made.mac.tokens.clone()).to_string();
    tokens.replace("; ", ";\n").replace("{ ", "{\n").replace("} ", "}\n") + "\n"
}

fn without_texts(tokens: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let inner = without_texts(group.stream());
                if group.delimiter() == Delimiter::Bracket && inner.to_string().starts_with("doc") {
                    kept.pop();
                } else {
                    kept.push(TokenTree::Group(Group::new(group.delimiter(), inner)));
                }
            }
            other => kept.push(other),
        }
    }
    kept.into_iter().collect()
}

fn printed(item: Item) -> String {
    prettyplease::unparse(&File { shebang: None, frontmatter: None, attrs: Vec::new(), items: vec![item] })
}

fn nothing() -> Block {
    syn::parse_quote!({})
}

fn hidden() -> Expr {
    syn::parse_quote!(_)
}

/// The texts of the doc comments in some tokens, line by line.
pub(crate) fn texts(tokens: TokenStream, found: &mut String) {
    let mut last = [None, None];
    for token in tokens {
        match &token {
            TokenTree::Group(group) => texts(group.stream(), found),
            TokenTree::Literal(literal) if last == [Some("doc".to_owned()), Some("=".to_owned())] => {
                let text = syn::parse_str::<syn::LitStr>(&literal.to_string());
                found.extend(text.map(|text| text.value() + "\n"));
            }
            TokenTree::Literal(_) | TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
        last = [last[1].take(), Some(token.to_string())];
    }
}
