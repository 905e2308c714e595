//! The executable of [`cli_agent`].

/// A turn allocates often and frees on other threads, which costs half of its time with glibc's allocator; see docs/performance.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    cli_agent::main()
}
