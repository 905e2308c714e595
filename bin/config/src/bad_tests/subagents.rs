//! Sub-agents that could not be run as they are written.

use expect_test::expect;

use super::check;

#[test]
fn b1_sub_agents() {
    check(
        &[
            "[[subagents]]\nid = 'status'\ndescription = ''",
            "[[subagents]]\nid = 'a'\ndescription = ''\nmodel = 'select:none'",
            "[[subagents]]\nid = 'a'\ndescription = ''\nmodel = 'nope:model'",
            "[[subagents]]\nid = 'a'\ndescription = ''\non_parent_end = 'continue'",
            "[[subagents]]\nid = 'a'\ndescription = ''\nmode = 'inline'\non_parent_end = 'cancel'",
        ],
        expect![[r#"
            > [[subagents]]
            > id = 'status'
            > description = ''
            3:6 `subagents[0].id`: the built-in tool agent/status has this name; choose another
            4:15 `subagents[0].description` must not be empty
            > [[subagents]]
            > id = 'a'
            > description = ''
            > model = 'select:none'
            4:15 `subagents[0].description` must not be empty
            5:9 `subagents[0].model`: there is no [models.none]
            > [[subagents]]
            > id = 'a'
            > description = ''
            > model = 'nope:model'
            4:15 `subagents[0].description` must not be empty
            5:9 `subagents[0].model`: provider "nope" is not known; add [providers.nope]
            > [[subagents]]
            > id = 'a'
            > description = ''
            > on_parent_end = 'continue'
            4:15 `subagents[0].description` must not be empty
            5:17 `subagents[0].on_parent_end`: "continue" needs mode = "async"
            > [[subagents]]
            > id = 'a'
            > description = ''
            > mode = 'inline'
            > on_parent_end = 'cancel'
            4:15 `subagents[0].description` must not be empty
        "#]],
    );
}
