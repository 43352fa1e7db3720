from tests.support.tuning.searches import a_search


def test_the_name_of_a_trials_job_follows_from_search_and_number() -> None:
    assert a_search().snapshot().job_name(12) == "search-12"
