//! The modules of the library's packages, as their sources say, and what a path leads to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::{Attribute, Item, UseTree, Visibility};

/// The packages that the interface is made of, and where their roots are.
const PACKAGES: [(&str, &str); 4] = [
    ("bob", "bin/bob/src"),
    ("bob_actors", "actors/src"),
    ("bob_messages", "messages/src"),
    ("bob_supervisors", "supervisors/src"),
];

/// The names from a package's root to a module; the first is the package's.
pub(crate) type ModulePath = Vec<String>;

/// The items of all modules.
pub(crate) struct Sources {
    modules: BTreeMap<ModulePath, Vec<Item>>,
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Module(ModulePath),
    /// An item of a module, by its name.
    Item(ModulePath, String),
    /// Something of another crate.
    Outside(String),
}

impl Sources {
    pub(crate) fn read(root: &Path) -> Self {
        let mut sources = Self { modules: BTreeMap::new() };
        for (name, folder) in PACKAGES {
            let folder = root.join(folder);
            sources.read_module(vec![name.to_owned()], &folder.join("lib.rs"), &folder);
        }
        sources
    }

    fn read_module(&mut self, path: ModulePath, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        self.add(path, parsed.items, folder);
    }

    fn add(&mut self, path: ModulePath, mut items: Vec<Item>, folder: &Path) {
        items.retain(|item| !attributes(item).iter().any(is_for_tests));
        for item in &mut items {
            let Item::Mod(module) = item else { continue };
            let name = module.ident.to_string();
            let (below, inner) = ([path.as_slice(), std::slice::from_ref(&name)].concat(), folder.join(&name));
            match module.content.take() {
                Some((_, items)) => self.add(below, items, &inner),
                None => {
                    let file = file_of(module, folder, &inner);
                    self.read_module(below, &file, &inner);
                }
            }
        }
        self.modules.insert(path, items);
    }

    /// The items of a module.
    pub(crate) fn items(&self, module: &ModulePath) -> &[Item] {
        &self.modules[module]
    }

    /// All modules with their items.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&ModulePath, &Vec<Item>)> {
        self.modules.iter()
    }

    /// The item of this name in a module.
    pub(crate) fn item(&self, module: &ModulePath, name: &str) -> Option<&Item> {
        self.modules.get(module)?.iter().find(|item| self::name(item).as_deref() == Some(name))
    }

    /// What a path leads to that stands in this module.
    pub(crate) fn resolve(&self, from: &ModulePath, path: &[String]) -> Option<Target> {
        self.resolved(from, path, 0)
    }

    fn resolved(&self, from: &ModulePath, path: &[String], depth: usize) -> Option<Target> {
        // Two modules may import all of each other.
        if depth > 12 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Target::Module(from[..1].to_vec()),
            "self" => Target::Module(from.clone()),
            "super" => Target::Module(from[..from.len() - 1].to_vec()),
            package if PACKAGES.iter().any(|(name, _)| *name == package) => Target::Module(vec![package.to_owned()]),
            name => self.find(from, name, depth).unwrap_or_else(|| Target::Outside(name.to_owned())),
        };
        for name in rest {
            at = match at {
                Target::Module(module) if name == "super" => Target::Module(module[..module.len() - 1].to_vec()),
                Target::Module(module) => self.find(&module, name, depth)?,
                Target::Outside(path) => Target::Outside(format!("{path}::{name}")),
                Target::Item(..) => return None,
            };
        }
        Some(at)
    }

    /// What is called so in a module: defined there, or imported.
    fn find(&self, module: &ModulePath, name: &str, depth: usize) -> Option<Target> {
        let below = [module.as_slice(), &[name.to_owned()]].concat();
        if self.modules.contains_key(&below) {
            return Some(Target::Module(below));
        }
        if self.item(module, name).is_some() {
            return Some(Target::Item(module.clone(), name.to_owned()));
        }
        let imported = self.modules.get(module)?.iter().filter_map(|item| match item {
            Item::Use(used) => Some(imports(&used.tree)),
            _defined => None,
        });
        let imported: Vec<_> = imported.flatten().collect();
        let by_name = imported.iter().filter(|(alias, _)| alias == name);
        let by_glob = imported.iter().filter(|(alias, _)| alias == "*").map(|(_, path)| path);
        by_name
            .map(|(_, path)| path.clone())
            .chain(by_glob.map(|path| [path.as_slice(), &[name.to_owned()]].concat()))
            .find_map(|path| match self.resolved(module, &path, depth + 1)? {
                Target::Item(found, of) if self.item(&found, &of).is_none() => None,
                found => Some(found),
            })
    }
}

/// The names that a `use` brings, with the paths they stand for; a glob is called `*`, without its last step.
pub(crate) fn imports(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    match tree {
        UseTree::Path(path) => {
            let name = path.ident.to_string();
            let mut below = imports(&path.tree);
            below.iter_mut().for_each(|(_, steps)| steps.insert(0, name.clone()));
            // `a::{self}` is `a`.
            below.iter_mut().filter(|(alias, _)| alias == "self").for_each(|(alias, _)| alias.clone_from(&name));
            for (_, steps) in &mut below {
                if steps.len() > 1 && steps.last().is_some_and(|last| last == "self") {
                    steps.pop();
                }
            }
            below
        }
        UseTree::Name(name) => vec![(name.ident.to_string(), vec![name.ident.to_string()])],
        UseTree::Rename(name) => vec![(name.rename.to_string(), vec![name.ident.to_string()])],
        UseTree::Glob(_) => vec![("*".to_owned(), Vec::new())],
        UseTree::Group(group) => group.items.iter().flat_map(imports).collect(),
    }
}

/// The name of an item. One that a macro makes has the last name in its braces.
pub(crate) fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Macro(made) if made.ident.is_none() => {
            let last = made.mac.tokens.clone().into_iter().last()?;
            return matches!(last, proc_macro2::TokenTree::Ident(_)).then(|| last.to_string());
        }
        _without_a_name => return None,
    };
    Some(ident.to_string())
}

/// Whether an item is public.
pub(crate) fn is_public(item: &Item) -> bool {
    let visibility = match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Mod(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Use(item) => &item.vis,
        _others => return false,
    };
    matches!(visibility, Visibility::Public(_))
}

/// The attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _others => &[],
    }
}

/// The features in attributes, as they are told behind a path.
pub(crate) fn features(attributes: &[Attribute]) -> String {
    let conditions = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let texts = conditions.map(|attribute| attribute.meta.to_token_stream().to_string());
    let names = texts.filter_map(|text| Some(text.split_once("feature = \"")?.1.split_once('"')?.0.to_owned()));
    names.map(|name| format!("   ({name})")).collect()
}

/// The name of a trait's method that depends on a feature.
pub(crate) fn feature_of_trait_item(item: &syn::TraitItem) -> Option<String> {
    let syn::TraitItem::Fn(function) = item else { return None };
    (!features(&function.attrs).is_empty()).then(|| function.sig.ident.to_string())
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.meta.to_token_stream().to_string() == "cfg (test)"
}

fn file_of(module: &syn::ItemMod, folder: &Path, inner: &Path) -> PathBuf {
    let named = module.attrs.iter().find(|attribute| attribute.path().is_ident("path")).map(|attribute| {
        let syn::Meta::NameValue(value) = &attribute.meta else { panic!("a path without a value") };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &value.value else { panic!("no text") };
        folder.join(text.value())
    });
    let beside = inner.with_extension("rs");
    named.unwrap_or(if beside.exists() { beside } else { inner.join("mod.rs") })
}
