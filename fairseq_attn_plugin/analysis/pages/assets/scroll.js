"use strict";
// A box that scrolls sideways is reached by the keyboard, and named; one that shows everything is not a stop.
{
  const name = (box) => {
    const text = box.querySelector("th") || box.parentElement.querySelector("figcaption");
    return text && text.textContent.trim() ? text.textContent.trim() : "Table";
  };
  const update = (box) => {
    const scrolls = box.scrollWidth > box.clientWidth;
    const given = { tabindex: "0", role: "group", "aria-label": `${name(box)} (scrolls sideways)` };
    for (const [key, value] of Object.entries(given)) {
      if (scrolls) box.setAttribute(key, value);
      else box.removeAttribute(key);
    }
  };
  const watch = new ResizeObserver((entries) => entries.forEach((entry) => update(entry.target)));
  document.querySelectorAll(".scroll, pre").forEach((box) => watch.observe(box));
  document.querySelectorAll("img").forEach((image) => image.addEventListener("load", () => update(image.closest(".scroll") || image)));
}
