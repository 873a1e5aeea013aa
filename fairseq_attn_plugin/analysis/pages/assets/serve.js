(() => {
  const board = new Board(byId("board"));
  const [source, target] = data.languages.map(languageName);
  const [sourceTag, targetTag] = data.languages.map(languageTag);
  // for each model: {error}, or {translations, remarks, shown}; {} while it translates
  let results = [], words = !data.unspaced, divided = false, running = null;

  byId("title").textContent = `${source}\u2009\u2192\u2009${target}`;
  byId("text-label").textContent = `Sentence in ${source} (Enter translates it)`;
  byId("text").lang = sourceTag || "";
  byId("foot").textContent = data.models.map((one) =>
    `${several ? `${one.label}: ` : ""}${one.checkpoint}, beam ${one.beam}`).join("; ");
  document.querySelector("main").classList.toggle("several", several);
  data.notes.forEach((note) => byId("notes").append(element("p", { class: "note" }, note)));

  // --- how to type ----------------------------------------------------------------------------------------------------
  const separates = data.models.some((one) => one.separates);
  byId("reading").textContent = [
    separates ? "Type blanks around punctuation, as in \u201cYes , please .\u201d: nothing separates it for the model."
      : "Type ordinary text.",
    data.models.every((one) => one.lowercase) ? "Capital letters are read as small ones." : "",
  ].join(" ").trim();
  byId("examples").hidden = !data.examples.length;
  data.examples.forEach((text) => {
    const button = element("button", { type: "button", class: "plain", lang: sourceTag, dir: "auto" }, text);
    button.addEventListener("click", () => {
      byId("text").value = text;
      translate();
    });
    byId("examples").append(button);
  });

  // --- what is shown --------------------------------------------------------------------------------------------------
  function say(message) {
    byId("message").textContent = message ? message[0].toUpperCase() + message.slice(1) : "";
    byId("message").hidden = !message;
  }

  function cardOf(result, number) {
    const shown = { label: several ? data.models[number].label : "Attention", languages: data.languages };
    const one = result && result.translations ? result.translations[result.shown] : null;
    if (!one) return { ...shown, note: result && result.error ? result.error : "\u2026" };
    const [left, right] = [unitsOf(one.source, words), unitsOf(one.target, words)];
    const weights = mergeWeights(Float64Array.from(one.attention.flat()), left, right);
    return {
      ...shown, source: left, target: right,
      sourceKey: left.texts.join(" "), targetKey: right.texts.join(" "), targetText: unitsOf(one.target, true).texts.join(" "),
      weights: divided ? divideRows(weights) : weights,
      scores: mergeScores(one.scores, right), targetKind: "translation",
      detail: one.source.unknown.length ? "underlined: not in the vocabulary" : null,
      score: one.scores.reduce((sum, score) => sum + (score ?? NaN), 0) / one.scores.length,
    };
  }

  function draw(keep) {
    board.show(data.models.map((_, number) => cardOf(results[number], number)), keep, data.models.length >= MANY);
  }

  /** Whether some rows of weights sum to more than one, as with some mechanisms. */
  const heavy = () => results.some((result) => (result.translations || []).some((one) =>
    one.attention.some((row) => row.reduce((sum, weight) => sum + weight, 0) > 1.05)));

  function switches() {
    const made = [];
    if (data.subwords) made.push(unitsChoice(words, (chosen) => { words = chosen; draw(false); }));
    if (heavy()) made.push(rowsChoice(divided, (chosen) => { divided = chosen; draw(true); }));
    else divided = false;
    byId("switches").replaceChildren(...made);
  }

  /** The translations of a model, with their scores. */
  function listOf(result, number) {
    const { label } = data.models[number];
    const list = element("div", { class: "nbest" }, ...result.translations.map((one, rank) => {
      const input = element("input", { type: "radio", name: `hypothesis-${number}`, value: String(rank) });
      input.checked = rank === result.shown;
      input.addEventListener("change", () => {
        result.shown = rank;
        draw(false);
      });
      return element("label", {}, element("span", { dir: "auto", lang: one.text ? targetTag : null }, input, one.text || "(nothing)"),
        element("span", { class: "score" }, `score ${signed(one.score)}`));
    }));
    return element("fieldset", {}, element("legend", several ? {} : { class: "visually-hidden" },
      several ? label : "Translations, best first"), list);
  }

  function list() {
    byId("hypotheses").replaceChildren(...results.map((result, number) => (result.translations ? listOf(result, number) : null))
      .filter(Boolean));
  }

  // --- asking ---------------------------------------------------------------------------------------------------------
  /** Asks a model: {translations, remarks}, or {error}. */
  async function ask(model, question, signal) {
    const response = await fetch("/translate", { method: "POST", headers: { "Content-Type": "application/json" }, signal,
      body: JSON.stringify({ ...question, model }) });
    const answer = await response.json().catch(() => ({}));
    return answer.translations || answer.error ? answer
      : { error: `The server could not translate this text (${response.status}).` };
  }

  async function translate() {
    if (running) running.abort();
    const mine = new AbortController();
    running = mine;
    const question = { text: byId("text").value };
    say("");
    byId("send").disabled = true;
    byId("state").textContent = "translating \u2026";
    board.root.setAttribute("aria-busy", "true");
    byId("hypotheses").replaceChildren();
    byId("switches").replaceChildren();
    byId("results").hidden = true;
    results = [];
    try {
      // one after the other: a server translates one sentence at a time, and others wait as well
      for (const [number, model] of data.models.entries()) {
        const result = { shown: 0 };
        results.push(result);
        Object.assign(result, await ask(model.label, question, mine.signal));
        if (several && !result.error) list();
      }
    } catch (error) {
      if (mine.signal.aborted) return;
      results = [{ error: "The server does not answer; check that fairseq-attn serve is running." }];
    }
    byId("send").disabled = false;
    byId("state").textContent = "";
    board.root.setAttribute("aria-busy", "false");
    const failed = results.every((result) => result.error);
    byId("results").hidden = failed;
    if (failed) {
      say(results[0].error);
      return;
    }
    const { remarks } = results.find((result) => !result.error);
    say(remarks.join("; "));
    list();
    switches();
    draw(false);
    setAddress(question);
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
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, .map")) return;
    const keys = { ArrowRight: () => board.move(1), ArrowLeft: () => board.move(-1), x: () => board.cross(), Escape: () => board.release() };
    if (!(event.key in keys) || !results.length) return;
    event.preventDefault();
    keys[event.key]();
  });

  const asked = new URLSearchParams(location.hash.slice(1));
  if (asked.get("text")) {
    byId("text").value = asked.get("text");
    translate();
  }
})();
