//! Stores of tests that do one thing otherwise than the one below them.

/// Methods of `SessionStore` that a field has: `pass_on!(store: claim, load);`.
macro_rules! pass_on {
    ($store:ident: $($method:ident),+) => {
        $($crate::pass_on::pass_on!(@$method $store);)+
    };
    (@claim $store:ident) => {
        fn claim<'a>(
            &'a self,
            session: &'a bob::SessionId,
        ) -> bob::BoxFuture<'a, Result<bob::store::Claim, bob::store::StoreError>> {
            self.$store.claim(session)
        }
    };
    (@load $store:ident) => {
        fn load<'a>(
            &'a self,
            session: &'a bob::SessionId,
        ) -> bob::BoxFuture<'a, Result<Vec<std::sync::Arc<bob::store::Record>>, bob::store::StoreError>> {
            self.$store.load(session)
        }
    };
    (@append $store:ident) => {
        fn append(
            &self,
            batch: Vec<bob::store::Append>,
        ) -> bob::BoxFuture<'_, Vec<Result<u64, bob::store::StoreError>>> {
            self.$store.append(batch)
        }
    };
    (@release $store:ident) => {
        fn release<'a>(&'a self, session: &'a bob::SessionId, epoch: u64) -> bob::BoxFuture<'a, ()> {
            self.$store.release(session, epoch)
        }
    };
    (@list $store:ident) => {
        fn list<'a>(
            &'a self,
            filter: &'a bob::sessions::SessionFilter,
            cursor: Option<&'a str>,
        ) -> bob::BoxFuture<'a, Result<bob::sessions::SessionPage, bob::store::StoreError>> {
            self.$store.list(filter, cursor)
        }
    };
    (@delete $store:ident) => {
        fn delete<'a>(
            &'a self,
            session: &'a bob::SessionId,
        ) -> bob::BoxFuture<'a, Result<bool, bob::store::StoreError>> {
            self.$store.delete(session)
        }
    };
}

pub(crate) use pass_on;
