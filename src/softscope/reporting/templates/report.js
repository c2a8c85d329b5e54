"use strict";
// The threshold slider. All it knows are numbers; names stay in the page, where they were escaped.
(function () {
  const data = JSON.parse(document.getElementById("slider-data").textContent);
  const slider = document.getElementById("slider");
  const choice = document.getElementById("estimator");
  const all = (selector) => Array.from(document.querySelectorAll(selector));
  const percent = (share) => (100 * share).toFixed(1) + "\u00a0%";
  const tiles = all("[data-input]");
  const pictures = all("[data-histograms]");
  const rocs = all("svg.roc");
  let speaking = 0;

  function moveLine(picture, threshold) {
    const line = picture.querySelector(".threshold");
    const { low, high, left, right } = picture.dataset;
    const share = Math.min(1, Math.max(0, (threshold - low) / (high - low)));
    line.setAttribute("transform", `translate(${Number(left) + share * (right - left)} 0)`);
  }

  function moveDot(picture, alarms, missed) {
    const dot = picture.querySelector(".operating");
    const { left, top, side } = picture.dataset;
    dot.setAttribute("cx", Number(left) + Math.sqrt(alarms) * side);
    dot.setAttribute("cy", Number(top) + missed * side);
    dot.removeAttribute("hidden");
  }

  function moveInputs(number, threshold, start) {
    for (const tile of tiles) {
      const score = data.inputs[tile.dataset.input][number];
      const flagged = score > threshold;
      tile.classList.toggle("flagged", flagged);
      tile.classList.toggle("moved", flagged !== score > start);
      tile.querySelector(".side").textContent = flagged ? "flagged" : "accepted";
    }
    for (const shelf of all("[data-shelf]")) {
      const count = document.querySelector(`[data-count="${shelf.dataset.shelf}"]`);
      count.textContent = shelf.querySelectorAll(".flagged").length;
    }
  }

  function writeCsv(number, threshold) {
    const link = document.getElementById("flagged-csv");
    if (!link) return;
    const quoted = (text) => '"' + text.replaceAll('"', '""').replace(/^[=+@-]/, "'$&") + '"';
    const lines = tiles.map((tile) => {
      const shelf = tile.closest("[data-shelf]");
      const score = data.inputs[tile.dataset.input][number];
      return [quoted(shelf.dataset.name), tile.dataset.row, score, score > threshold ? "flagged" : "accepted"].join(",");
    });
    link.href = "data:text/csv;charset=utf-8," + encodeURIComponent(["set,row,score,side", ...lines].join("\n"));
  }

  function show() {
    const number = Number(choice.value);
    const estimator = data.estimators[number];
    const at = Number(slider.value);
    const threshold = estimator.thresholds[at];
    const alarms = percent(estimator.alarms[at]);
    document.getElementById("alarms").textContent = alarms;
    document.getElementById("rule").textContent = estimator.rules[at];
    const atMost = document.getElementById("at-most");
    if (atMost && estimator.atMost.length) atMost.textContent = percent(estimator.atMost[at]);
    writeCsv(number, threshold);
    estimator.missed.forEach((shares, set) => {
      document.querySelector(`[data-missed="${set}"]`).textContent = percent(shares[at]);
      document.querySelector(`[data-caught="${set}"]`).textContent = percent(1 - shares[at]);
      document.querySelector(`[data-meter="${set}"]`).style.setProperty("--v", shares[at]);
      if (rocs[set]) moveDot(rocs[set], estimator.alarms[at], shares[at]);
    });
    moveLine(pictures[number].querySelector("svg"), threshold);
    moveInputs(number, threshold, estimator.thresholds[estimator.start]);
    slider.setAttribute("aria-valuetext", alarms + " false alarms");
    clearTimeout(speaking);
    speaking = setTimeout(() => {
      const missed = estimator.missed.map((shares) => shares[at]);
      const mean = missed.reduce((sum, share) => sum + share, 0) / missed.length;
      document.getElementById("spoken").textContent =
        `${alarms} of test inputs flagged; on average ${percent(mean)} of unfamiliar inputs missed.`;
    }, 400);
  }

  function choose() {
    const estimator = data.estimators[Number(choice.value)];
    slider.max = estimator.thresholds.length - 1;
    slider.value = estimator.start;
    pictures.forEach((picture, number) => { picture.hidden = number !== Number(choice.value); });
    show();
  }

  slider.addEventListener("input", show);
  choice.addEventListener("change", choose);
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
  addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
  choose();
})();
