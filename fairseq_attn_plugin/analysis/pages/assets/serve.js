(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const board = new Board(byId("board"));
  const [source, target] = data.languages.map(languageName);
  let translations = [], shown = 0, words = true, divided = false, asked = 0;

  byId("title").textContent = `${source}\u2009\u2192\u2009${target}`;
  byId("text-label").textContent = `Sentence in ${source} (Enter translates it)`;
  byId("text").lang = languageTag(data.languages[0]) || "";
  byId("foot").textContent = `${data.checkpoint}, beam ${data.beam}`;
  data.notes.forEach((note) => byId("notes").append(element("p", { class: "note" }, note)));

  function say(message) {
    byId("message").textContent = message || "";
    byId("message").hidden = !message;
  }

  function draw(keep) {
    const one = translations[shown];
    const [left, right] = [unitsOf(one.source, words), unitsOf(one.target, words)];
    const weights = mergeWeights(Float64Array.from(one.attention.flat()), left, right);
    board.show([{
      label: "Attention", languages: data.languages, source: left, target: right, targetKey: 0,
      weights: divided ? divideRows(weights) : weights,
      scores: mergeScores(one.scores, right), targetKind: "translation",
      detail: one.source.unknown.length ? "underlined: not in the vocabulary" : null,
      score: one.scores.reduce((sum, score) => sum + (score ?? NaN), 0) / one.scores.length,
    }], keep);
  }

  /** Whether some rows of weights sum to more than one, as with some mechanisms. */
  const heavy = () => translations.some((one) =>
    one.attention.some((row) => row.reduce((sum, weight) => sum + weight, 0) > 1.05));

  function switches() {
    const made = [];
    if (data.subwords) {
      made.push(choice("Show", "units", [["words", "words"], ["subwords", "subwords"]],
        words ? "words" : "subwords", (value) => { words = value === "words"; draw(false); }));
    }
    if (heavy()) {
      made.push(choice("Rows", "rows", [["given", "as they are"], ["divided", "sum to one"]],
        divided ? "divided" : "given", (value) => { divided = value === "divided"; draw(true); }));
    } else divided = false;
    byId("switches").replaceChildren(...made);
  }

  function list() {
    byId("hypotheses").replaceChildren(...translations.map((one, number) => {
      const input = element("input", { type: "radio", name: "hypothesis", value: String(number) });
      input.checked = number === shown;
      input.addEventListener("change", () => { shown = number; draw(false); });
      return element("label", {}, element("span", { dir: "auto", lang: one.text ? languageTag(data.languages[1]) : null },
        input, one.text || "(nothing)"),
        element("span", { class: "score", title: "score of the beam search; higher is better" }, signed(one.score)));
    }));
  }

  async function translate() {
    const number = ++asked;
    const text = byId("text").value;
    say("");
    byId("send").disabled = true;
    byId("state").textContent = "translating \u2026";
    let answer;
    try {
      const response = await fetch("/translate", { method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ text }) });
      answer = await response.json();
      if (!response.ok && !answer.error) answer = { error: `The server could not translate this text (${response.status}).` };
    } catch (error) {
      answer = { error: "The server does not answer; check that attn-analysis serve is running." };
    }
    if (number !== asked) return;
    byId("send").disabled = false;
    byId("state").textContent = "";
    byId("results").hidden = Boolean(answer.error);
    if (answer.error) {
      say(answer.error[0].toUpperCase() + answer.error.slice(1));
      return;
    }
    translations = answer.translations;
    shown = 0;
    list();
    switches();
    draw(false);
    try {
      history.replaceState(null, "", `#${new URLSearchParams({ text })}`);
    } catch (error) {
      // some browsers forbid the change of the address; it then stays
    }
  }

  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    translate();
  });
  byId("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!byId("send").disabled) translate();
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const keys = { ArrowRight: () => board.move(1), ArrowLeft: () => board.move(-1), x: () => board.cross(), Escape: () => board.release() };
    if (!(event.key in keys) || !translations.length) return;
    event.preventDefault();
    keys[event.key]();
  });

  const text = new URLSearchParams(location.hash.slice(1)).get("text");
  if (text) {
    byId("text").value = text;
    translate();
  }
})();
