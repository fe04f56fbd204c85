"use strict";
// Counts the rows of a release in the page. Masses are integers below 2^61, kept as two halves of 32 bits and
// added in doubles, which is exact up to 2^21 rows; so an answer has the same bits as Release.answer.
(() => {
  const MOST_CELLS = 200000, MOST_DRAWN = 40, MOST_LISTED = 100, MOST_QUERIES = 40, MOST_BOXES = 40;
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const byId = name => document.getElementById(name);
  const state = {conditions: new Map(), shown: null, all: false};

  // --- unpacking ---
  const unpack = async () => {
    if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old to unpack the rows: use one of 2023 or later");
    const text = atob(byId("rows").textContent), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  const masses = (bytes, begin, rows) => {
    const low = new Float64Array(rows), high = new Float64Array(rows);
    for (let i = 0; i < rows; i++) {
      const byte = plane => bytes[begin + plane * rows + i];
      low[i] = byte(0) + 256 * (byte(1) + 256 * (byte(2) + 256 * byte(3)));
      high[i] = byte(4) + 256 * (byte(5) + 256 * (byte(6) + 256 * byte(7)));
    }
    return {low, high};
  };
  const codes = (bytes, begin, rows, bits) => {
    if (bits === 8) return bytes.subarray(begin, begin + rows);
    if (bits < 8) {
      const found = new Uint8Array(rows), inByte = 8 / bits, mask = (1 << bits) - 1;
      for (let i = 0; i < rows; i++) found[i] = (bytes[begin + Math.floor(i / inByte)] >> ((i % inByte) * bits)) & mask;
      return found;
    }
    const wide = bytes.slice(begin, begin + rows * bits / 8).buffer;
    return bits === 16 ? new Uint16Array(wide) : new Uint32Array(wide);  // browsers are little endian
  };
  const lengthOf = (rows, bits) => bits < 8 ? Math.ceil(rows / (8 / bits)) : rows * bits / 8;
  let released, published, columns, first, second;  // of intervals: noisy share and reach, or low and high
  const held = new Map();  // the attributes of a marginal -> its first cell among the intervals
  const read = bytes => {
    const rows = facts.rows;
    let at = 0;
    released = masses(bytes, at, rows);
    at += 8 * rows;
    if (facts.public) { published = masses(bytes, at, rows); at += 8 * rows; }
    columns = facts.columns.map(column => {
      const found = codes(bytes, at, rows, column.bits);
      at += lengthOf(rows, column.bits);
      return found;
    });
    let cells = 0;
    for (let j = 0; j + 1 < facts.starts.length; j++) {
      const marginal = facts.marginals.slice(facts.starts[j], facts.starts[j + 1]);
      held.set(marginal.join(), cells);
      cells += marginal.reduce((product, a) => product * facts.columns[a].size, 1);
    }
    const numbers = new Float32Array(bytes.slice(at, at + 8 * cells).buffer);
    first = numbers.subarray(0, cells);
    second = numbers.subarray(cells);
  };

  // --- counting ---
  const sizeOf = a => facts.columns[a].labels.length;
  const share = (highs, lows, cell) => Number(BigInt(highs[cell]) * 4294967296n + BigInt(lows[cell])) / 2 ** 60;
  const count = (by, allowed) => {
    const rows = facts.rows, kept = new Uint8Array(rows).fill(1), place = new Uint32Array(rows);
    for (const [a, values] of allowed) {
      const column = columns[a];
      for (let i = 0; i < rows; i++) kept[i] &= values[column[i]];
    }
    let cells = 1;
    for (const a of by) {
      const column = columns[a], size = sizeOf(a);
      for (let i = 0; i < rows; i++) place[i] = place[i] * size + column[i];
      cells *= size;
    }
    const sums = weights => {
      const highs = new Float64Array(cells), lows = new Float64Array(cells);
      for (let i = 0; i < rows; i++) if (kept[i]) { highs[place[i]] += weights.high[i]; lows[place[i]] += weights.low[i]; }
      return Float64Array.from(highs, (_, cell) => share(highs, lows, cell));
    };
    return {cells, released: sums(released), published: facts.public ? sums(published) : null};
  };
  const valuesOf = (by, cell) => {
    const values = new Array(by.length);
    for (let k = by.length - 1; k >= 0; k--) { values[k] = cell % sizeOf(by[k]); cell = Math.floor(cell / sizeOf(by[k])); }
    return values;
  };
  // The interval of a cell, or of a sum of cells that the conditions allow. Noise of measured cells of one
  // marginal is independent, so reaches add up as squares. Fitted errors are not: their intervals are added
  // up, which is at least as wide as need be.
  const intervalsOf = (by, allowed) => {
    const all = [...new Set([...by, ...allowed.keys()])].sort((a, b) => a - b), begin = held.get(all.join());
    if (begin === undefined || all.some(a => facts.columns[a].codes)) return null;
    return values => {
      const cells = all.reduce((found, a) => {
        const place = by.indexOf(a), size = sizeOf(a);
        const chosen = place >= 0 ? [values[place]] : chosenOf(a, allowed.get(a));
        return found.flatMap(cell => chosen.map(v => cell * size + v));
      }, [0]).map(cell => begin + cell);
      const sum = each => cells.reduce((total, cell) => total + each(cell), 0);
      const one = sum(cell => first[cell]);
      if (Number.isNaN(one)) return null;
      if (facts.intervals === "fitted") return [one, Math.min(sum(cell => second[cell]), 1)];
      const middle = Math.min(Math.max(one, 0), 1), reach = Math.sqrt(sum(cell => second[cell] ** 2));
      return [Math.max(middle - reach, 0), Math.min(middle + reach, 1)];
    };
  };
  const widened = ([down, up], found) => {
    if (facts.sample === null) return [down, up];
    const more = 2 * Math.sqrt(Math.max(found * (1 - found), 1 / facts.sample) / facts.sample);
    return [Math.max(down - more, 0), Math.min(up + more, 1)];
  };

  // --- words ---
  const plain = text => String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\ufffd").trim() || "(empty)";
  const nameOf = a => plain(facts.columns[a].name), labelOf = (a, value) => plain(facts.columns[a].labels[value]);
  const percent = part => part === 0 ? "0 %" : part < 5e-7 ? "below 0.0001 %" : `${Number((100 * part).toPrecision(3)).toLocaleString("en", {maximumFractionDigits: 6})} %`;
  const about = part => Math.round(part * facts.records).toLocaleString("en");
  const list = words => words.length < 2 ? words.join() : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
  const chosenOf = (a, values) => facts.columns[a].labels.map((_, v) => v).filter(v => values[v]);
  const level = `${Number((100 * facts.level).toPrecision(3))} times in 100`;

  // --- the form ---
  const element = (tag, properties = {}, ...inside) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...inside);
    return made;
  };
  const pickers = [1, 2, 3].map(k => byId(`column-${k}`));
  const fillForm = () => {
    pickers.forEach((picker, k) => {
      if (k) picker.append(element("option", {value: "", textContent: "nothing more"}));
      facts.columns.forEach((_, a) => picker.append(element("option", {value: a, textContent: nameOf(a)})));
      picker.addEventListener("change", change);
    });
    facts.columns.forEach((_, a) => byId("condition-on").append(element("option", {value: a, textContent: nameOf(a)})));
    byId("condition-on").selectedIndex = Math.min(1, facts.columns.length - 1);
    byId("order").addEventListener("change", change);
    byId("add-condition").addEventListener("click", () => addCondition(Number(byId("condition-on").value)));
    byId("more").addEventListener("click", () => { state.all = true; showTable(); byId("answer").focus(); });
    byId("download").addEventListener("click", download);
    for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(byId(button.dataset.copy)));
    byId("question").addEventListener("submit", event => event.preventDefault());
  };
  const addCondition = a => {
    if (state.conditions.has(a)) { state.conditions.get(a).box.querySelector("input, select").focus(); return; }
    const size = sizeOf(a), values = new Uint8Array(size).fill(1);
    const box = element("fieldset", {}, element("legend", {textContent: nameOf(a)}));
    if (size <= MOST_BOXES) {
      const choices = element("div", {className: "choices"});
      for (let v = 0; v < size; v++) {
        const input = element("input", {type: "checkbox", checked: true});
        input.addEventListener("change", () => { values[v] = input.checked ? 1 : 0; change(); });
        choices.append(element("label", {}, input, labelOf(a, v)));
      }
      box.append(choices);
    } else {
      const select = element("select", {multiple: true, ariaLabel: `Values of ${nameOf(a)}`});
      for (let v = 0; v < size; v++) select.append(element("option", {textContent: labelOf(a, v), selected: true}));
      select.addEventListener("change", () => { for (let v = 0; v < size; v++) values[v] = select.options[v].selected ? 1 : 0; change(); });
      box.append(select);
    }
    const set = on => {
      values.fill(on);
      for (const input of box.querySelectorAll("input")) input.checked = Boolean(on);
      for (const option of box.querySelectorAll("option")) option.selected = Boolean(on);
      change();
    };
    const button = (words, label, act) => {
      const made = element("button", {type: "button", textContent: words, ariaLabel: label});
      made.addEventListener("click", act);
      return made;
    };
    box.append(element("div", {className: "buttons"},
      button("All", `All values of ${nameOf(a)}`, () => set(1)),
      button("None", `No value of ${nameOf(a)}`, () => set(0)),
      button("Remove", `Remove the condition on ${nameOf(a)}`, () => { state.conditions.delete(a); box.remove(); change(); byId("condition-on").focus(); })));
    state.conditions.set(a, {values, box});
    byId("conditions").append(box);
    change();
    box.querySelector("input, select").focus();
  };

  // --- a change ---
  const question = () => {
    const by = [...new Set(pickers.map(picker => picker.value).filter(Boolean).map(Number))];
    const allowed = new Map([...state.conditions].map(([a, {values}]) => [a, values]).filter(([, values]) => values.includes(0)));
    return {by, allowed};
  };
  const change = () => {
    const began = performance.now(), {by, allowed} = question();
    const size = by.reduce((product, a) => product * sizeOf(a), 1);
    state.all = false;
    if (size > MOST_CELLS) { refuse(`These columns together have ${size.toLocaleString("en")} cells, and this page shows at most ${MOST_CELLS.toLocaleString("en")}: choose fewer.`); return; }
    const found = count(by, allowed), intervals = intervalsOf(by, allowed), cells = [];
    for (let cell = 0; cell < found.cells; cell++) {
      const values = valuesOf(by, cell);
      if (by.some((a, k) => allowed.has(a) && !allowed.get(a)[values[k]])) continue;
      const interval = intervals && intervals(values), answer = found.released[cell];
      cells.push({values, released: answer, published: found.published && found.published[cell], interval: interval && widened(interval, answer)});
    }
    const order = byId("order").value, moved = cell => Math.abs(cell.released - (cell.published || 0));
    if (order === "released") cells.sort((a, b) => b.released - a.released);
    if (order === "change") cells.sort((a, b) => moved(b) - moved(a));
    state.shown = {by, allowed, cells, total: cells.reduce((sum, cell) => sum + cell.released, 0), stated: cells.some(cell => cell.interval)};
    showWords();
    showPicture();
    showTable();
    showCode();
    document.documentElement.dataset.milliseconds = (performance.now() - began).toFixed(1);
  };
  const refuse = words => {
    state.shown = null;
    byId("status").textContent = words;
    for (const name of ["precision", "answer", "picture", "rest"]) byId(name).replaceChildren();
    byId("picture-of-answer").hidden = byId("more").hidden = true;
    byId("as-python").value = byId("as-command").value = "";
  };
  const queryInWords = () => {
    const {by, allowed} = state.shown;
    const given = [...allowed].map(([a, values]) => {
      const chosen = chosenOf(a, values);
      const words = chosen.slice(0, 6).map(v => labelOf(a, v));
      return `${nameOf(a)} is ${chosen.length ? chosen.length > 6 ? `one of ${chosen.length} values` : words.join(" or ") : "nothing"}`;
    });
    return list(by.map(nameOf)) + (given.length ? `, where ${list(given)}` : "");
  };
  const showWords = () => {
    const {by, allowed, cells, total, stated} = state.shown;
    byId("result-heading").textContent = queryInWords();
    const most = cells.reduce((best, cell) => best && best.released >= cell.released ? best : cell, null);
    const where = allowed.size ? `The conditions hold for ${percent(total)} of the records, about ${about(total)} of ${facts.records.toLocaleString("en")}. ` : "";
    byId("status").textContent = cells.length ? `${where}${cells.length.toLocaleString("en")} cell${cells.length === 1 ? "" : "s"}; the largest is ${list(by.map((a, k) => `${nameOf(a)} ${labelOf(a, most.values[k])}`))}, with ${percent(most.released)}${most.interval ? `, from ${percent(most.interval[0])} to ${percent(most.interval[1])}` : ""}.` : "No value is chosen: there is no cell to show.";
    const used = new Set([...by, ...allowed.keys()]).size;
    byId("precision").textContent = stated
      ? `The bars are intervals: by the noise that was added, each holds the true share ${level}.${facts.intervals === "fitted" && [...allowed.values()].some(v => v.filter(Boolean).length > 1) ? " For several values at once the intervals are added up, which makes them wider than need be." : ""}`
      : facts.measured ? `No interval is stated: this page has none for ${used === 1 ? "this column" : `these ${used} columns together`}. The shares rest on what was measured of fewer columns, and on the public rows; small ones may be far off.` : "No interval is stated: nothing was measured in this release.";
  };
  const svg = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const wrap = (text, most) => {
    const lines = [""];
    for (const word of text.match(/\S{1,18}\s*/g) || [text]) {
      if (lines.at(-1) && (lines.at(-1) + word).trimEnd().length > most) lines.push("");
      lines[lines.length - 1] += word;
    }
    return lines.slice(0, 5).map(line => line.trimEnd());
  };
  const showPicture = () => {
    const {by, cells} = state.shown, drawn = [...cells];
    if (drawn.length > MOST_DRAWN) drawn.sort((a, b) => b.released - a.released).length = MOST_DRAWN;
    byId("picture-of-answer").hidden = drawn.length === 0;
    if (!drawn.length) return;
    const narrow = byId("result").clientWidth < 560, width = narrow ? 340 : 640, most = narrow ? 17 : 34, letter = 6.1;
    const labels = drawn.map(cell => wrap(by.map((a, k) => labelOf(a, cell.values[k])).join(" · "), most));
    const left = 14 + letter * Math.max(...labels.flat().map(line => line.length)), right = width - 14;
    const tops = [];
    let height = 26;
    for (const lines of labels) { tops.push(height + (13 * lines.length + 8) / 2); height += 13 * lines.length + 8; }
    const top = Math.max(...drawn.map(cell => Math.max(cell.released, cell.published || 0, cell.interval ? Math.min(cell.interval[1], 1) : 0)), 1e-9);
    const step = [1, 2, 5, 10].map(k => k * 10 ** Math.floor(Math.log10(top / 4))).find(k => top / k <= (narrow ? 4 : 8)) || top;
    const x = part => left + (right - left) * part / top;
    const caption = `${drawn.length < cells.length ? `The ${drawn.length} largest of ${cells.length.toLocaleString("en")} cells. ` : ""}Squares are the release${facts.public ? ", circles the public rows" : ""}${state.shown.stated ? ", bars the intervals" : ""}; in per cent of all records.`;
    const picture = svg("svg", {viewBox: `0 0 ${width} ${height + 30}`, role: "img", "aria-labelledby": "picture-title picture-desc"});
    picture.append(svg("title", {id: "picture-title"}, queryInWords()), svg("desc", {id: "picture-desc"}, `${byId("status").textContent} The table below has every figure.`));
    for (let tick = 0; tick <= top * 1.0001; tick += step) {
      picture.append(svg("line", {x1: x(tick), x2: x(tick), y1: 22, y2: height, class: "grid"}), svg("text", {x: x(tick), y: height + 15, "text-anchor": "middle"}, String(Number((100 * tick).toPrecision(6)))));
    }
    picture.append(svg("text", {x: right, y: height + 28, "text-anchor": "end"}, "% of records"));
    const key = (at, words, ...marks) => picture.append(...marks, svg("text", {x: at, y: 14}, words));
    key(24, "released", svg("rect", {x: 10, y: 6, width: 8, height: 8, class: "released"}));
    if (facts.public) key(104, "public", svg("circle", {cx: 95, cy: 10, r: 4.5, class: "public"}));
    drawn.forEach((cell, k) => {
      const y = tops[k], lines = labels[k];
      lines.forEach((line, place) => picture.append(svg("text", {x: left - 9, y: y + 4 + 13 * (place - (lines.length - 1) / 2), "text-anchor": "end"}, line)));
      if (cell.interval) {
        const [down, up] = cell.interval.map(x);
        picture.append(svg("path", {d: `M${down} ${y}H${up}M${down} ${y - 4}V${y + 4}M${up} ${y - 4}V${y + 4}`, class: "interval"}));
      }
      if (facts.public) picture.append(svg("circle", {cx: x(cell.published), cy: y, r: 4.5, class: "public"}));
      picture.append(svg("rect", {x: x(cell.released) - 4, y: y - 4, width: 8, height: 8, class: "released"}));
    });
    byId("picture").replaceChildren(picture);
    byId("picture-caption").textContent = caption;
  };
  const headings = () => [...state.shown.by.map(nameOf), "Released", ...(state.shown.stated ? ["From", "To"] : []), "Records, about", ...(facts.public ? ["Public"] : [])];
  const showTable = () => {
    const {by, cells, stated} = state.shown, listed = state.all ? cells : cells.slice(0, MOST_LISTED);
    const table = element("table", {}, element("caption", {textContent: `Share of the records: ${queryInWords()}`}));
    const head = element("tr");
    headings().forEach((words, k) => head.append(element("th", {scope: "col", className: k < by.length ? "value" : "number", textContent: words})));
    table.append(element("thead", {}, head));
    const body = element("tbody");
    for (const cell of listed) {
      const row = element("tr");
      cell.values.forEach((value, k) => row.append(element("th", {scope: "row", className: "value", textContent: labelOf(by[k], value)})));
      const figures = [percent(cell.released), ...(stated ? cell.interval ? cell.interval.map(percent) : ["not stated", "not stated"] : []), about(cell.released), ...(facts.public ? [percent(cell.published)] : [])];
      for (const figure of figures) row.append(element("td", {className: "number", textContent: figure}));
      body.append(row);
    }
    table.append(body);
    byId("answer").replaceChildren(...(cells.length ? [table] : []));
    byId("more").hidden = listed.length === cells.length;
    byId("rest").textContent = listed.length < cells.length ? `${listed.length} of ${cells.length.toLocaleString("en")} cells are listed; the csv file has them all.` : "";
  };

  // --- taking it elsewhere ---
  const codesOf = (a, values) => values.map(v => facts.columns[a].codes ? facts.columns[a].codes[v] : v);
  const text = words => JSON.stringify(words).replace(/[\u007f-\uffff]/g, letter => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
  // A surrogate pair is two escapes in JSON and one letter in Python.
  const pythonText = words => /[\ud800-\udfff]/.test(words) ? `"${[...words].map(letter => letter.codePointAt(0) > 65535 ? `\\U${letter.codePointAt(0).toString(16).padStart(8, "0")}` : text(letter).slice(1, -1)).join("")}"` : text(words);
  const shell = words => /^[\w.\/-]+$/.test(words) ? words : `'${words.replaceAll("'", "'\\''")}'`;
  const showCode = () => {
    const {by, allowed, cells} = state.shown;
    const dictionary = entries => `{${entries.map(([a, values]) => `${pythonText(facts.columns[a].name)}: [${codesOf(a, values).join(", ")}]`).join(", ")}}`;
    const shown = by.map(a => [a, [...Array(sizeOf(a)).keys()].filter(v => !allowed.has(a) || allowed.get(a)[v])]);
    const given = [...allowed].filter(([a]) => !by.includes(a)).map(([a, values]) => [a, chosenOf(a, values)]);
    byId("as-python").value = ["from itertools import product", "", "import privmw as pmw", "", `release = pmw.load_release(${pythonText(`${facts.folder}/release.npz`)})`,
      `columns = ${dictionary(shown)}  # codes of the values`, `given = ${dictionary(given)}`, "names = [*columns, *given]", "answers = {",
      "    cell: sum(release.answer(names, [*cell, *rest]) for rest in product(*given.values()))", "    for cell in product(*columns.values())", "}"].join("\n");
    const combinations = given.reduce((lists, [a, values]) => lists.flatMap(before => values.slice(0, MOST_QUERIES).map(v => [...before, [a, v]])).slice(0, MOST_QUERIES), [[]]);
    const queries = [];
    for (const cell of cells) {
      if (queries.length >= MOST_QUERIES) break;
      for (const rest of combinations) queries.push([...by.map((a, k) => [a, cell.values[k]]), ...rest]);
    }
    const askable = words => !/[=\n]/.test(words);
    const named = query => query.map(([a, v]) => [facts.columns[a].name, facts.columns[a].labels[v]]);
    const can = queries.every(query => named(query).every(([name, label]) => askable(name) && !name.includes(",") && askable(label)));
    const asked = queries.slice(0, MOST_QUERIES).map(query => `--query ${shell(named(query).map(pair => pair.join("=")).join(","))}`);
    const several = given.some(([, values]) => values.length > 1) ? "# add up the answers of each cell\n" : "";
    const more = cells.length * combinations.length > asked.length ? `# the first ${asked.length} queries; Python asks them all\n` : "";
    byId("as-command").value = can ? `${several}${more}privmw answer ${shell(facts.folder)} \\\n    ${asked.join(" \\\n    ")}` : "# a name or a value has an equals sign, which queries cannot have: use the Python";
  };
  const copy = async area => {
    let done = false;
    try { await navigator.clipboard.writeText(area.value); done = true; } catch { area.select(); done = document.execCommand("copy"); }
    byId("copied").textContent = done ? "Copied." : "Could not copy: the text is selected, copy it by hand.";
  };
  const asCsv = () => {
    const {by, cells, stated} = state.shown, quote = words => /[",\n\r]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
    const head = [...by.map(a => facts.columns[a].name), "released", ...(stated ? ["low", "high"] : []), "records", ...(facts.public ? ["public"] : [])];
    const lines = cells.map(cell => [...cell.values.map((v, k) => facts.columns[by[k]].labels[v]), cell.released, ...(stated ? cell.interval || ["", ""] : []), cell.released * facts.records, ...(facts.public ? [cell.published] : [])]);
    return [head, ...lines].map(line => line.map(entry => quote(String(entry))).join(",")).join("\r\n") + "\r\n";
  };
  const download = () => {
    if (!state.shown) return;
    const link = element("a", {href: URL.createObjectURL(new Blob([asCsv()], {type: "text/csv"})), download: "released.csv"});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  byId("about-interval").textContent = !facts.measured ? "None is stated: nothing was measured in this release."
    : `It holds the true share ${level}, ${facts.intervals === "fitted" ? "by refits of the release, over many cells together" : "by what was measured of the private table alone, whatever the release made of it, so that a released share may lie outside; intervals by refits (--intervals) are narrower"}. Where these columns were not measured together, none is stated.`;
  // For tests and the curious: the cells as shown, and the csv file as text.
  window.explorer = {cells: () => state.shown && state.shown.cells, csv: () => asCsv()};
  unpack().then(bytes => { read(bytes); byId("rows").remove(); fillForm(); change(); document.documentElement.dataset.ready = "yes"; })
    .catch(error => { byId("status").textContent = `The rows could not be unpacked: ${error.message}`; });
})();
