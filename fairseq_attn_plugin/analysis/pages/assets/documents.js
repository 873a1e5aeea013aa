{
  const byId = (id) => document.getElementById(id);
  const all = [...document.querySelectorAll("article")].map((node, place) => {
    const words = [...node.querySelectorAll(".word")];
    const texts = words.map((word) => word.firstChild.textContent.toLowerCase());
    return { node, words, texts, link: byId("contents").children[place].firstChild,
      found: `${node.querySelector("h2").textContent} ${texts.join(" ")}`.toLowerCase() };
  });
  let shown = all, active = null;

  // --- words: pointed at, focused, or chosen with the arrow keys ------------------------------------------------------
  function read(word) {
    if (active) active.classList.remove("active");
    active = word;
    byId("readout").hidden = !word;
    if (!word) return;
    word.classList.add("active");
    const line = word.closest(".line"), share = line.querySelector(".share small");
    const [name, weight] = [word.firstChild.textContent, word.querySelector("small").textContent];
    let text = `${name}: weight ${weight}`;
    if (share) {
      text += `, in sentence ${line.dataset.number} of weight ${share.lastChild.textContent} (${share.dataset.times} times uniform)`;
      text += `; together ${word.dataset.times} times uniform`;
    } else text += `, ${word.dataset.times} times uniform`;
    byId("readout").textContent = text;
  }

  function focus(one, word) {
    one.words.forEach((other) => { other.tabIndex = other === word ? 0 : -1; });
    word.focus();
    word.scrollIntoView({ block: "nearest" });
  }

  const ownerOf = (node) => all.find((one) => one.node.contains(node));
  all.forEach((one) => one.words.forEach((word, place) => { word.tabIndex = place ? -1 : 0; }));
  const wordAt = (event) => event.target.closest && event.target.closest(".word");
  document.addEventListener("focusin", (event) => {
    if (wordAt(event)) read(wordAt(event));
    mark();
  });
  document.addEventListener("pointerover", (event) => { if (wordAt(event)) read(wordAt(event)); });
  document.addEventListener("click", (event) => { if (wordAt(event)) focus(ownerOf(event.target), wordAt(event)); });

  function move(step) {
    const one = (active && ownerOf(active)) || current();
    if (!one || !one.words.length) return;
    const place = active && one.words.includes(active) ? one.words.indexOf(active) + step : 0;
    focus(one, one.words[Math.min(Math.max(place, 0), one.words.length - 1)]);
  }

  // --- documents ------------------------------------------------------------------------------------------------------
  /** The document with the focus, or the first that is in the window. */
  function current() {
    const focused = ownerOf(document.activeElement);
    if (focused && shown.includes(focused)) return focused;
    const top = byId("tools").getBoundingClientRect().bottom + 40;
    return shown.find((one) => one.node.getBoundingClientRect().bottom > top) || shown[shown.length - 1];
  }

  function go(one) {
    one.node.focus({ preventScroll: true });
    one.node.scrollIntoView();
    try {
      history.replaceState(null, "", `#${one.node.id}`);
    } catch (error) {
      // some browsers forbid the change of a file's address; the page works without it
    }
  }

  function step(by) {
    const place = shown.indexOf(current()) + by;
    if (shown[place]) go(shown[place]);
  }

  function mark() {
    const now = current(), place = shown.indexOf(now);
    all.forEach((one) => {
      if (one === now) one.link.setAttribute("aria-current", "true");
      else one.link.removeAttribute("aria-current");
    });
    byId("previous").disabled = place <= 0;
    byId("next").disabled = place < 0 || place === shown.length - 1;
  }

  function search() {
    const wanted = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const wrong = byId("wrong") && byId("wrong").checked;
    let hits = 0;
    for (const one of all) {
      const fits = wanted.every((word) => one.found.includes(word)) && (!wrong || "wrong" in one.node.dataset);
      one.node.hidden = one.link.parentNode.hidden = !fits;
      one.words.forEach((word, place) => {
        const hit = fits && wanted.some((text) => one.texts[place].includes(text));
        word.classList.toggle("hit", hit);
        hits += hit;
      });
    }
    shown = all.filter((one) => !one.node.hidden);
    if (active && ownerOf(active).node.hidden) read(null);
    const count = `${all.length} document${all.length === 1 ? "" : "s"}`;
    byId("count").textContent = (shown.length < all.length ? `${shown.length} of ${count}` : count)
      + (wanted.length ? `, ${hits} word${hits === 1 ? "" : "s"} found` : "");
    mark();
  }

  byId("tools").hidden = false;
  byId("search").addEventListener("input", search);
  if (byId("wrong")) byId("wrong").addEventListener("change", search);
  byId("values").addEventListener("change", () => byId("documents").classList.toggle("values", byId("values").checked));
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  document.addEventListener("scroll", mark, { passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") {
      byId("search").value = "";
      search();
      read(null);
    }
    if (event.key === "Enter" && event.target === byId("search") && shown.length) {
      const hit = document.querySelector(".word.hit");
      if (hit) focus(ownerOf(hit), hit);
      else go(shown[0]);
    }
    if (event.target.matches("input[type=search]")) return;
    const keys = {
      j: () => step(1), k: () => step(-1), ArrowRight: () => move(1), ArrowLeft: () => move(-1),
      v: () => byId("values").click(), "/": () => byId("search").focus(),
    };
    // a box that scrolls sideways needs the arrows itself
    if (!keys[event.key] || (event.key.startsWith("Arrow") && event.target.matches(".scroll"))) return;
    event.preventDefault();
    keys[event.key]();
  });
  search();
}
