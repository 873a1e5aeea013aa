"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const articles = [...document.querySelectorAll("article")].map((node, place) => ({
    node, place, text: [node.id.slice(1), ...[...node.querySelectorAll("p")].map((line) => line.textContent)].join(" ").toLowerCase(),
    scores: node.dataset.scores.split(";").map((values) => values.split(" ").map(Number)),
  }));
  const mean = (values) => values.reduce((sum, one) => sum + one, 0) / values.length;
  const KEYS = {
    order: (one) => one.place,
    worst: (one, metric, sign) => sign * mean(one.scores[metric]),
    best: (one, metric, sign) => -sign * mean(one.scores[metric]),
    difference: (one, metric) => Math.min(...one.scores[metric]) - Math.max(...one.scores[metric]),
  };

  function arrange() {
    const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const key = KEYS[byId("sort").value], metric = byId("metric").value;
    const sign = byId("metric").selectedOptions[0].dataset.lower ? -1 : 1;  // of TER, less is better
    const sorted = [...articles].sort((a, b) => key(a, metric, sign) - key(b, metric, sign) || a.place - b.place);
    let count = 0;
    for (const one of sorted) {
      one.node.hidden = !wanted.every((word) => one.text.includes(word));
      count += !one.node.hidden;
    }
    byId("sentences").replaceChildren(...sorted.map((one) => one.node));
    byId("count").textContent = count < articles.length ? `${count} of ${articles.length} sentences` : all;
  }

  const all = byId("count").textContent;
  byId("tools").hidden = false;
  byId("search").addEventListener("input", arrange);
  byId("sort").addEventListener("change", arrange);
  byId("metric").addEventListener("change", arrange);
})();
