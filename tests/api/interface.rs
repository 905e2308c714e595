//! The public paths of the library, and what they lead to.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::{Item, ItemImpl, ItemTrait, ItemUse, Type};

use crate::api::tree::{ModulePath, Sources, Target, attributes, features, imports, is_public, name};
use crate::api::{names, print};

pub(crate) struct Interface<'s> {
    sources: &'s Sources,
    /// What each path leads to, and the features without which it is not there.
    paths: BTreeMap<String, (Target, String)>,
    /// The `use` by which something of another module or package is public.
    used: BTreeMap<String, &'s ItemUse>,
    walked: BTreeSet<(ModulePath, String)>,
    /// The `impl` blocks of all modules, by the last name of the type.
    blocks: BTreeMap<String, Vec<(&'s ModulePath, &'s ItemImpl)>>,
}

impl<'s> Interface<'s> {
    pub(crate) fn of(sources: &'s Sources) -> Self {
        let (paths, used, walked) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut blocks = BTreeMap::<_, Vec<_>>::new();
        for (at, item) in sources.all().flat_map(|(at, items)| items.iter().map(move |item| (at, item))) {
            if let Item::Impl(block) = item
                && let Some(name) = steps_to(block).pop()
            {
                blocks.entry(name).or_default().push((at, block));
            }
        }
        let mut interface = Self { sources, paths, used, walked, blocks };
        interface.walk(&vec!["bob".to_owned()], "bob");
        interface
    }

    fn walk(&mut self, module: &ModulePath, path: &str) {
        if !self.walked.insert((module.clone(), path.to_owned())) {
            return;
        }
        let sources = self.sources;
        for item in sources.items(module).iter().filter(|item| is_public(item)) {
            let features = features(attributes(item));
            match item {
                Item::Mod(inner) => {
                    let name = inner.ident.to_string();
                    let below = [module.as_slice(), std::slice::from_ref(&name)].concat();
                    self.lead(format!("{path}::{name}"), features, Target::Module(below));
                }
                Item::Use(used) => {
                    for (alias, steps) in imports(&used.tree) {
                        let target = sources.resolve(module, &steps);
                        let target = target.unwrap_or_else(|| panic!("{path}: {} leads nowhere", steps.join("::")));
                        match (alias.as_str(), target) {
                            ("*", Target::Module(all)) => self.walk(&all, path),
                            (_, target) => {
                                self.used.insert(format!("{path}::{alias}"), used);
                                self.lead(format!("{path}::{alias}"), features.clone(), target);
                            }
                        }
                    }
                }
                item => {
                    let name = name(item).unwrap();
                    self.lead(format!("{path}::{name}"), features, Target::Item(module.clone(), name));
                }
            }
        }
    }

    fn lead(&mut self, path: String, features: String, target: Target) {
        if let Target::Module(module) = &target {
            self.walk(module, &path);
        }
        self.paths.insert(path, (target, features));
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        let (mut text, mut told, mut macros) = (String::new(), BTreeSet::new(), BTreeSet::new());
        for (path, (target, features)) in &self.paths {
            match target {
                Target::Module(_) => text.push_str(&format!("\n# mod {path}{features}\n")),
                Target::Outside(of) => text.push_str(&format!("\n# {path}{features}: {of}\n")),
                Target::Item(module, name) if told.insert((module, name)) => {
                    text.push_str(&format!("\n# {path}{features}\n"));
                    text.push_str(&self.of_item(module, name));
                    if let Some(Item::Macro(made)) = self.sources.item(module, name) {
                        macros.extend(made.mac.path.get_ident().map(|of| (module, of.to_string())));
                    }
                }
                Target::Item(module, name) => {
                    text.push_str(&format!("\n# {path}{features}: {}::{name}, which is above\n", module.join("::")));
                }
            }
        }
        for (module, name) in macros {
            let made = self.sources.items(module).iter().find_map(|item| match item {
                Item::Macro(made) if made.ident.as_ref().is_some_and(|ident| *ident == name) => Some(made),
                _another => None,
            });
            text.push_str(&format!("\n# what {name}! makes\n{}", print::definition(made.unwrap())));
        }
        text.trim_start().to_owned()
    }

    /// The paths of types, traits and constants, by the last name of each; one path of each item.
    pub(crate) fn named(&self) -> BTreeMap<&str, Vec<&str>> {
        let (mut named, mut told): (BTreeMap<_, Vec<_>>, _) = (BTreeMap::new(), BTreeSet::new());
        for path in self.paths.iter().filter(|(_, (target, _))| told.insert(target)).map(|(path, _)| path) {
            let name = path.rsplit("::").next().unwrap_or_default();
            // Functions are called with the names of their modules.
            if self.item(path).is_some_and(|item| !matches!(item, Item::Fn(_))) {
                named.entry(name).or_default().push(path.as_str());
            }
        }
        named
    }

    /// The functions of the module for tests that check a port, and what each takes.
    pub(crate) fn suites(&self) -> BTreeMap<&str, String> {
        let of = |path: &'_ String| match self.item(path)? {
            Item::Fn(function) if function.sig.asyncness.is_some() => Some(function.sig.to_token_stream().to_string()),
            _another => None,
        };
        let paths = self.paths.keys().filter(|path| path.starts_with("bob::testing::"));
        paths.filter_map(|path| Some((path.rsplit("::").next()?, of(path)?))).collect()
    }

    /// The public methods of an item that are its own.
    pub(crate) fn methods(&self, path: &str) -> Vec<String> {
        let Some((Target::Item(module, name), _)) = self.paths.get(path) else { return Vec::new() };
        let blocks = self.blocks(module, name).into_iter().filter(|(_, block)| block.trait_.is_none());
        let items = blocks.flat_map(|(_, block)| &block.items);
        let methods = items.filter_map(|item| match item {
            syn::ImplItem::Fn(method) if matches!(method.vis, syn::Visibility::Public(_)) => Some(&method.sig),
            _private_or_another => None,
        });
        methods.map(|signature| signature.ident.to_string()).collect()
    }

    /// The items, each once, by one of their paths.
    pub(crate) fn items(&self) -> Vec<(String, &'s Item)> {
        let mut told = BTreeSet::new();
        let once = self.paths.iter().filter(|(_, (target, _))| told.insert(target));
        once.filter_map(|(path, _)| Some((path.clone(), self.item(path)?))).collect()
    }

    /// The `impl` of a trait for the item of this path, by the last name of the trait.
    pub(crate) fn implementation(&self, path: &str, of: &str) -> Option<&'s ItemImpl> {
        let (Target::Item(module, name), _) = self.paths.get(path)? else { return None };
        let mut blocks = self.blocks(module, name).into_iter().map(|(_, block)| block);
        blocks.find(|block| {
            let path = block.trait_.as_ref().map(|(path, _)| path);
            path.and_then(|path| path.segments.last()).is_some_and(|last| last.ident == of)
        })
    }

    /// The public functions that make one of the item of this path from something else.
    pub(crate) fn makers(&self, path: &str) -> impl Iterator<Item = String> {
        let blocks = match self.paths.get(path) {
            Some((Target::Item(module, name), _)) => self.blocks(module, name),
            _another => Vec::new(),
        };
        let blocks = blocks.into_iter().filter(|(_, block)| block.trait_.is_none());
        blocks.flat_map(|(_, block)| &block.items).filter_map(|item| match item {
            syn::ImplItem::Fn(function)
                if matches!(function.vis, syn::Visibility::Public(_))
                    && function.sig.receiver().is_none()
                    && !print::is_hidden(&function.attrs)
                    && function.sig.output.to_token_stream().to_string().contains("Self") =>
            {
                Some(function.sig.ident.to_string())
            }
            _method_or_another => None,
        })
    }

    /// The item of this path.
    pub(crate) fn item(&self, path: &str) -> Option<&'s Item> {
        let (Target::Item(at, name), _) = self.paths.get(path)? else { return None };
        self.sources.item(at, name)
    }

    /// The `use` that makes it public, which may have a text of its own.
    pub(crate) fn used(&self, path: &str) -> Option<&'s ItemUse> {
        self.used.get(path).copied()
    }

    /// The traits that programs implement, by their paths: all but the one that is implemented for every runtime.
    pub(crate) fn ports(&self) -> BTreeMap<String, &'s ItemTrait> {
        let traits = self.paths.keys().filter_map(|path| match self.item(path)? {
            Item::Trait(port) => Some((path.clone(), port)),
            _another => None,
        });
        traits.filter(|(_, port)| port.ident != "AgentRuntimeExt").collect()
    }

    /// The texts of each item with those of its methods, fields and variants, by its path.
    pub(crate) fn documentation(&self) -> BTreeMap<String, String> {
        let of = |(path, (target, _)): (&String, &(Target, String))| {
            let Target::Item(module, name) = target else { return None };
            let mut text = String::new();
            if let Some(used) = self.used(path) {
                print::texts(used.to_token_stream(), &mut text);
            }
            print::texts(self.sources.item(module, name)?.to_token_stream(), &mut text);
            for (_, block) in self.blocks(module, name) {
                print::texts(block.to_token_stream(), &mut text);
            }
            Some((path.clone(), text))
        };
        self.paths.iter().filter_map(of).collect()
    }

    /// The types of public signatures, fields and variants that no public path leads to, each with the path of an item that
    /// has it.
    pub(crate) fn unnamed(&self) -> Vec<String> {
        let public: BTreeSet<_> = self.paths.values().map(|(target, _)| target).collect();
        let mut unnamed = BTreeSet::new();
        for (path, (target, _)) in &self.paths {
            let Target::Item(module, name) = target else { continue };
            let mut named = names::of_item(self.sources.item(module, name).unwrap()).into_iter().map(|at| (module, at));
            let blocks = self.blocks(module, name);
            let of_blocks =
                blocks.iter().flat_map(|(at, block)| names::of_block(block).into_iter().map(move |of| (*at, of)));
            for (at, steps) in named.by_ref().chain(of_blocks) {
                let found = self.sources.resolve(at, &steps);
                if let Some(Target::Item(of, name)) = &found
                    && !found.as_ref().is_some_and(|found| public.contains(found))
                {
                    unnamed.insert(format!("{}::{name}, in {path}", of.join("::")));
                }
            }
        }
        unnamed.into_iter().collect()
    }

    /// The modules of the library, without those in them.
    pub(crate) fn modules(&self) -> Vec<&str> {
        let inner = self.paths.iter().filter(|(_, (target, _))| matches!(target, Target::Module(_)));
        let names = inner.filter_map(|(path, _)| path.strip_prefix("bob::"));
        names.filter(|name| !name.contains("::")).collect()
    }

    fn of_item(&self, module: &ModulePath, name: &str) -> String {
        let item = self.sources.item(module, name).unwrap();
        let blocks = self.blocks(module, name);
        let blocks: BTreeSet<_> = blocks.into_iter().filter_map(|(_, block)| print::implemented(block)).collect();
        blocks.into_iter().fold(print::interface(item), |text, block| text + &block)
    }

    /// The `impl` blocks of an item, with the modules in which they are.
    fn blocks(&self, module: &ModulePath, name: &str) -> Vec<(&'s ModulePath, &'s ItemImpl)> {
        let target = Target::Item(module.clone(), name.to_owned());
        let called_so = self.blocks.get(name).into_iter().flatten();
        let is_its_own = |at, block| self.sources.resolve(at, &steps_to(block)).as_ref() == Some(&target);
        called_so.filter(|(at, block)| is_its_own(at, block)).copied().collect()
    }
}

/// The names of the path of the type that a block is of; none for one that has no path.
fn steps_to(block: &ItemImpl) -> Vec<String> {
    match &*block.self_ty {
        Type::Path(of) => of.path.segments.iter().map(|step| step.ident.to_string()).collect(),
        _another => Vec::new(),
    }
}
