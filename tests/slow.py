"""Which tests are slow: about a twentieth of all, which take more than half of the time. `make test-slow` runs them.

They are listed here, by the processor time that they took, and marked when tests are collected. What each of them tests
has quick tests besides; of families of systems, those in `QUICK`.
"""

import pytest

COLLECTED = pytest.StashKey[list[str]]()  # the names of all tests of a run, before some are chosen

_STATISTICAL = {
    "tests/hierarchy/test_draws.py": (
        "test_releases_have_the_enumerated_law",
        "test_releases_with_exact_sums_have_the_enumerated_law",
        "test_mutants_of_exact_sums_are_rejected",
    ),
    "tests/inference/test_areas_field.py": ("test_moves_keep_the_joint_law",),
    "tests/inference/test_posterior.py": ("test_the_chain_keeps_the_posterior",),
    "tests/inference/test_smooth.py": (
        "test_field_and_table_keep_their_joint_law",
        "test_tables_keep_the_posterior_given_the_field",
    ),
    "tests/inference/test_surrogate.py": (
        "test_the_posterior_is_kept",
        "test_a_prior_of_another_chain_is_found_out",
        "test_without_the_normalisers_it_is_not",
    ),
    "tests/inference/test_wide.py": ("test_chains_with_estimates_have_the_enumerated_means",),
    "tests/noise/test_new_family.py": ("test_it_is_drawn_by_the_exact_engine",),
    "tests/privacy/test_audit.py": (
        "TestByDraws::test_noise_scale_off_by_five_percent",
        "TestByDraws::test_the_honest_mechanism_is_left_alone_and_nearly_reached",
        "TestByDraws::test_an_approximate_claim_needs_its_delta",
    ),
    "tests/sampling/test_choose.py": ("TestRegistered::test_draws_have_the_enumerated_law",),
    "tests/sampling/test_exact.py": ("test_two_hundred_thousand_draws_keep_every_invariant",),
    "tests/sampling/test_two_way_rejection.py": ("test_draws_have_the_enumerated_law",),
    "tests/sampling/test_samplers.py": ("test_method_has_the_enumerated_law",),
    "tests/sampling/test_allocation.py": ("test_draws_have_the_law", "test_an_untilted_acceptance_is_rejected"),
    "tests/sampling/test_two_way_counts.py": ("test_draws_have_the_enumerated_law",),
}
_WHOLE_PATHS = {  # commands, browsers, clusters, crashes, pages of the documentation with long computations
    "tests/bundle/test_verify.py": ("test_whoever_uses_a_bundle_is_told_what_is_not_checked",),
    "tests/cli/test_commands.py": ("test_results_go_to_stdout_in_words_and_as_json[estimate]",),
    "tests/cli/test_hostile_text.py": (
        "test_texts_that_show_come_out_as_they_are[one table]",
        "test_a_terminal_that_lacks_a_letter_gets_its_escape",
        "test_studies_go_through",
    ),
    "tests/curator/test_fuzz.py": ("test_a_result_or_a_refusal_in_words",),
    "tests/curator/test_kills.py": ("test_a_kill_at_each_step",),
    "tests/engines/test_spark.py": ("test_releases_on_a_cluster",),
    "tests/examples/test_examples.py": ("test_the_commands_of_the_readme_run",),
    "tests/sampling/test_jit.py": ("test_code_that_a_member_of_the_group_planted_is_not_run",),
    "tests/test_documents.py": (
        "test_every_block_runs[estimates.md]",
        "test_every_block_runs[inference.md]",
        "test_every_block_runs[questions.md]",
    ),
    "tests/test_guides.py": ("test_every_command_of_the_curators_guide_runs",),
    "tests/workbench/test_browser.py": (
        "test_the_whole_path_on_counties",
        "test_no_serious_fault_of_accessibility",
    ),
}
_LONG_COMPUTATIONS = {  # audits of many drawn systems, the largest tables, studies
    "tests/bundle/test_expected_errors.py": ("test_many_areas_are_drawn_and_some_may_stand_for_all",),
    "tests/bundle/test_large_bundles.py": (
        "test_a_small_bundle_that_asks_for_much_is_refused",
        "test_codes_take_no_more_room_than_a_bundle_allows",
    ),
    "tests/bundle/test_random_edits.py": ("test_random_edits_are_refused",),
    "tests/curator/test_plan_screen.py": (
        "test_a_release_with_the_budget_that_is_found_has_the_error",
        "test_the_error_of_sums_over_areas",
    ),
    "tests/curator/test_statements.py": (
        "test_sums_that_cross_three_times_are_refused_with_what_can_be_drawn",
        "test_a_wide_table_is_refused_with_progress_and_with_what_can_be_drawn",
    ),
    "tests/inference/test_frequentist.py": ("test_every_table_is_covered",),
    "tests/inference/test_model_test.py": (
        "test_the_level_holds_where_the_textbook_s_does_not",
        "test_draws_under_independence_are_those_of_every_table",
    ),
    "tests/inference/test_posterior.py": (
        "test_p12_under_independence_takes_small_steps",
        "test_a_poor_proposal_is_said_aloud",
    ),
    "tests/inference/test_tree_chain.py": (
        "test_intervals_cover_as_they_say_under_the_prior",
        "test_with_the_wrong_noise_they_do_not",
    ),
    "tests/inference/test_wide.py": ("test_a_wide_release_is_asked",),
    "tests/privacy/test_audit.py": ("test_large_systems_are_audited_at_the_pair_that_a_search_finds",),
    "tests/privacy/test_weighted.py": ("test_drawn_systems",),
    "tests/privacy/test_weighted_certificates.py": ("test_no_pair_loses_more_than_its_certificate_says",),
    "tests/sampling/test_counting.py": (
        "test_more_than_four_lines_are_estimated",
        "test_an_estimate_agrees_with_a_number_known_to_the_last_digit",
    ),
    "tests/sampling/test_exact.py": (
        "test_a_wide_soft_gaussian_sum_is_whole",
        "test_a_thousand_nearly_empty_cells",
    ),
    "tests/sampling/test_independence.py": (
        "test_p12_best_proposal_is_as_printed",
        "test_p12_acceptance_is_as_printed",
    ),
    "tests/sampling/test_two_way_rejection.py": (
        "test_no_chance_is_above_one",
        "test_normalisers_by_acceptance_are_the_brute_force",
        "test_many_lines_stay_inside_their_windows",
        "test_counts_of_tables",
    ),
    "tests/sampling/test_allocation.py": (
        "test_tables_are_within_their_tolerance_of_balls",
        "test_long_families_and_large_counts",
    ),
    "tests/sampling/test_scaled_floats.py": ("test_wide_numbers_draw_the_same_tables_from_the_same_bits",),
    "tests/sampling/test_windows.py": ("test_what_is_missing_is_rounded_up_however_little_it_is",),
    "tests/study/test_answered.py": ("test_right_prior_covers_and_comes_nearer_than_the_release",),
    "tests/study/test_coverage.py": ("test_the_study_sees_intervals_that_are_too_narrow",),
    "tests/study/test_paper.py": (
        "test_figure_2_peaks_where_gm_find_it",
        "test_two_bin_variances_are_within_one_percent",
        "test_section_4_shows_where_post_processing_is_free",
    ),
    "tests/test_refusals.py": (
        "test_neighbours_near_a_limit_have_one_outcome",
        "test_neighbours_drawn_by_rejection_have_one_outcome",
    ),
}
SLOW = frozenset(
    f"{file}::{name}"
    for listed in (_STATISTICAL, _WHOLE_PATHS, _LONG_COMPUTATIONS)
    for file, names in listed.items()
    for name in names
)
QUICK = frozenset(
    f"{name}[{parameter}]"
    for name, parameters in {
        "tests/bundle/test_large_bundles.py::test_a_small_bundle_that_asks_for_much_is_refused": (
            *("areas with one long label", "labels of many cells", "rows without end", "units without end"),
        ),
        "tests/bundle/test_random_edits.py::test_random_edits_are_refused": ("areas", "one table", "ranges"),
        "tests/examples/test_examples.py::test_the_commands_of_the_readme_run": ("p12",),
        "tests/hierarchy/test_draws.py::test_releases_have_the_enumerated_law": (
            *("linear noise", "structural zeros", "three leaves"),
        ),
        "tests/hierarchy/test_draws.py::test_releases_with_exact_sums_have_the_enumerated_law": (
            "totals of the middle level alone",
        ),
        "tests/inference/test_frequentist.py::test_every_table_is_covered": (
            *("0.9-margins", "0.9-no invariants", "0.9-total"),
        ),
        "tests/inference/test_posterior.py::test_the_chain_keeps_the_posterior": ("total",),
        "tests/inference/test_surrogate.py::test_the_posterior_is_kept": ("small steps-total",),
        "tests/noise/test_new_family.py::test_it_is_drawn_by_the_exact_engine": ("soft margin",),
        "tests/sampling/test_choose.py::TestRegistered::test_draws_have_the_enumerated_law": (
            *("crossing margins-contraction", "range row-contraction", "weighted row-contraction"),
        ),
        "tests/sampling/test_two_way_rejection.py::test_draws_have_the_enumerated_law": (
            "both margins",
            "a range",
            "nested",
        ),
        "tests/sampling/test_samplers.py::test_method_has_the_enumerated_law": (
            *("range row-Algorithm 1", "range row-enumeration", "range row-rejection"),
            *("range row-rejection from uniform", "structural zero-Algorithm 1"),
        ),
        "tests/sampling/test_two_way_counts.py::test_draws_have_the_enumerated_law": (
            *("far above the counts-True", "far below the counts-False"),
        ),
        "tests/sampling/test_scaled_floats.py::test_wide_numbers_draw_the_same_tables_from_the_same_bits": (
            "small P12",
        ),
        "tests/test_refusals.py::test_neighbours_near_a_limit_have_one_outcome": (
            *("large_counts-discrete_gaussian", "range_of_doubles-double_geometric", "work-double_geometric"),
            *("tables_of_weights-discrete_gaussian", "both_margins-double_geometric"),
        ),
    }.items()
    for parameter in parameters
)


def is_slow(test: str) -> bool:
    """Whether a test, by its full name, is left to `make test-slow`."""
    return test not in QUICK and not SLOW.isdisjoint({test, test.partition("[")[0]})
