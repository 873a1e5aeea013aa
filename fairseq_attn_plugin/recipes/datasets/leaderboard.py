"""The leaderboard: systems x seeds x directions on the corpus of another recipe, from the raw files to the page."""

from ..leaderboard.run import LeaderboardRecipe

RECIPE = LeaderboardRecipe("leaderboard", {}, corpus=lambda variables: None)
